"""`seq2seq align` of links that are there already, from any aligner: compared, or put together."""

import argparse
from pathlib import Path

from seq2seq.cli.links import (
    check_links_output,
    check_symmetrize,
    facts_of,
    names,
    put_together,
    rates_in_words,
    report,
    word_counts,
)
from seq2seq.data.text import check_parallel
from seq2seq.errors import ConfigError


def align_links(arguments: argparse.Namespace) -> int:
    """Returns: 0."""
    paths: list[Path] = arguments.links
    if len(paths) > 2:
        raise ConfigError(
            f"--links takes one file, or one for each of two directions; here are {len(paths)}"
        )
    check_links_output(arguments)
    check_symmetrize(arguments, len(paths))
    from seq2seq.evaluation.alignment import read_alignment  # only here: torch takes a second
    from seq2seq.evaluation.gold import check_count, check_range

    if arguments.gold:
        paths = [*paths, arguments.gold]
    if arguments.source_file:
        count, of = check_parallel(arguments.source_file, arguments.target_file), names(arguments)
    links = [read_alignment(path) for path in paths]  # each once: it may be a pipe
    if not arguments.source_file:
        count, of = len(links[0]), str(paths[0])
    for path, found in zip(paths, links, strict=True):
        check_count(path, len(found), count, of)
    if arguments.source_file:
        sizes = word_counts(arguments.source_file, arguments.target_file)
        for path, found in zip(paths, links, strict=True):
            check_range(path, found, sizes, of)
    gold = links.pop() if arguments.gold else []
    # What an aligner calls possible, it says, too.
    outcome = put_together(arguments, [[pair.possible for pair in one] for one in links], gold)
    written = [f"{arguments.output}: {count:,} lines"] if arguments.output else []
    report(arguments, [*written, *rates_in_words(outcome)], facts_of(arguments, outcome))
    return 0

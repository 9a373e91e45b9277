"""Links of whole files, by models or any aligner: symmetrized, written, and scored."""

import json
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from seq2seq.alignment.links import (
    Link,
    LinkCounts,
    Links,
    check_all_links,
    check_line_count,
    format_links,
    read_alignment,
    words,
)
from seq2seq.alignment.symmetrize import HEURISTICS, symmetrize
from seq2seq.base.durable import replacing
from seq2seq.base.errors import format_count, printable
from seq2seq.data.text.lines import check_parallel, read_lines

PairLinks = set[Link] | None

DIRECTIONS = ("forward", "reverse")


def error_rates(counts: LinkCounts) -> dict[str, float]:
    """The rates by their headings."""
    return {
        "AER": counts.aer,
        "precision": counts.precision,
        "recall": counts.recall,
        "F1": counts.f1,
    }


def rates_entry(counts: LinkCounts) -> dict[str, float]:
    """For JSON: the rates and their counts."""
    rates = {name.lower(): rate for name, rate in error_rates(counts).items()}
    return rates | counts._asdict()


def rates_table(rows: Mapping[str, LinkCounts]) -> list[str]:
    """A line for each, under headings."""
    rates = {name: error_rates(counts) for name, counts in rows.items()}
    lines = ["  ".join(f"{heading:>9}" for heading in next(iter(rates.values())))]
    for name, values in rates.items():
        lines.append("  ".join(f"{value:9.3f}" for value in values.values()) + f"  {name}")
    return lines


def name_files(arguments: Namespace) -> str:
    """The files of the pairs, for messages."""
    return f"{arguments.source_file} and {arguments.target_file}"


def read_links(path: Path, count: int, of: str) -> list[Links]:
    """The links of `count` pairs.

    Raises: DataError naming the line of an invalid link, or both counts if there are not as many
        lines as pairs.
    """
    links = read_alignment(path)
    check_line_count(path, len(links), count, of)
    return links


def read_link_files(arguments: Namespace, paths: Sequence[Path]) -> list[list[Links]]:
    """The links of files, checked against the two files of text if these are given.

    Raises: DataError as `read_links`, and for a link to a word that is not there.
    """
    links = [read_alignment(path) for path in paths]  # each once: it may be a pipe
    count, of, sizes = len(links[0]), str(paths[0]), None
    if arguments.source_file:
        files = arguments.source_file, arguments.target_file
        count, of = check_parallel(*files, "aligning"), name_files(arguments)
        sizes = count_pair_words(*files)
    for path, lines in zip(paths, links, strict=True):
        check_line_count(path, len(lines), count, of)
        if sizes is not None:
            check_all_links(path, lines, sizes, of)
    return links


def count_pair_words(source: Path, target: Path) -> list[tuple[int, int]]:
    """Words of source and target of each pair."""
    pairs = zip(read_lines(source), read_lines(target), strict=True)
    return [(len(words(s)), len(words(t))) for s, t in pairs]


def combine_directions(
    arguments: Namespace, directions: Sequence[Iterable[PairLinks]], reference: Sequence[Links]
) -> tuple[bool, dict[str, LinkCounts]]:
    """Write a line for each pair if there is an output, and score if there is a reference.

    Args:
        directions: one or two; for each pair its links, source first, or None if it cannot be
            aligned.
        reference: of each pair, or empty.

    Returns: could all pairs be aligned, and how do the links agree with the reference, by direction
        and heuristic? The first counts are those of the links that are written.
    """
    heuristic = arguments.symmetrize or HEURISTICS[-1]
    names = [heuristic, *DIRECTIONS, *HEURISTICS] if len(directions) == 2 else ["links"]
    rates = dict.fromkeys(names if reference else [], LinkCounts(0, 0, 0, 0))
    wanted = (HEURISTICS if reference else [heuristic]) if len(directions) == 2 else []
    whole = True
    with replacing(arguments.output) if arguments.output else nullcontext() as file:
        for row, pair in enumerate(zip(*directions, strict=True)):
            known = [links for links in pair if links is not None]
            if len(known) < len(pair):
                whole, known = False, [set() for _ in pair]
            by_name = {"links": known[0], **dict(zip(DIRECTIONS, known, strict=False))}
            for name in wanted:
                by_name[name] = symmetrize(known[0], known[1], name)
            if file is not None:
                file.write(f"{format_links(by_name[names[0]])}\n".encode())
            expected = reference[row] if reference else Links(set(), set())
            for name, counts in rates.items():
                rates[name] = LinkCounts.total([counts, LinkCounts.of(by_name[name], *expected)])
    return whole, rates


def describe_rates(rates: Mapping[str, LinkCounts]) -> list[str]:
    """`AER 0.137, precision 0.830, recall 0.898, F1 0.862` of the links that are written; with two
    directions a table of all heuristics as well.
    """
    if not rates:
        return []
    name, counts = next(iter(rates.items()))
    line = ", ".join(f"{heading} {value:.3f}" for heading, value in error_rates(counts).items())
    return [f"{name}: {line}", *rates_table(rates)] if len(rates) > 1 else [line]


def print_results(arguments: Namespace, words: Sequence[str], summary: dict[str, Any]) -> None:
    """Print the words or, with --json, the summary."""
    if arguments.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        for text in words:
            print(printable(text))


def outcome_entry(arguments: Namespace, rates: Mapping[str, LinkCounts]) -> dict[str, Any]:
    """For JSON: the output and the rates."""
    fields: dict[str, Any] = {"output": str(arguments.output) if arguments.output else None}
    entries = {name: rates_entry(counts) for name, counts in rates.items()}
    first = next(iter(entries), None)
    if first is None:
        return fields
    if len(entries) == 1:
        return fields | entries[first]
    return {**fields, "symmetrize": first, **entries[first], "all": entries}


def align_links(arguments: Namespace) -> int:
    """`seq2seq align --links`. Returns: 0."""
    links = read_link_files(arguments, [*arguments.links, *filter(None, [arguments.gold])])
    count, reference = len(links[0]), links.pop() if arguments.gold else []
    # The possible links of an aligner count as links, too.
    possible = [[pair.possible for pair in lines] for lines in links]
    _, rates = combine_directions(arguments, possible, reference)
    written = [f"{arguments.output}: {format_count(count, 'line')}"] if arguments.output else []
    print_results(arguments, [*written, *describe_rates(rates)], outcome_entry(arguments, rates))
    return 0

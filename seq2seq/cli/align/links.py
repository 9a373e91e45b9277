"""Combine, write and score the links of whole files, from models or any other aligner."""

import json
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
from seq2seq.cli.align.options import AlignOptions, TextFiles

PairLinks = set[Link] | None

DIRECTIONS = ("forward", "reverse")


def error_rates(counts: LinkCounts) -> dict[str, float]:
    """Error rates by the headings of a table."""
    return {name: getattr(counts, name.lower()) for name in ("AER", "precision", "recall", "F1")}


def rates_entry(counts: LinkCounts) -> dict[str, float]:
    """Error rates, and the counts they are computed from, for JSON."""
    rates = {name.lower(): rate for name, rate in error_rates(counts).items()}
    return rates | counts._asdict()


def rates_table(rows: Mapping[str, LinkCounts]) -> list[str]:
    """A table of error rates: headings, then a line for each row."""
    rates = {name: error_rates(counts) for name, counts in rows.items()}
    lines = ["  ".join(f"{heading:>9}" for heading in next(iter(rates.values())))]
    for name, values in rates.items():
        lines.append("  ".join(f"{value:9.3f}" for value in values.values()) + f"  {name}")
    return lines


def read_links(path: Path, count: int, of: str) -> list[Links]:
    """Read the links of `count` pairs.

    Raises: DataError if a link is invalid, or if the file does not have a line for each pair.
    """
    links = read_alignment(path)
    check_line_count(path, len(links), count, of)
    return links


def read_link_files(paths: Sequence[Path], texts: TextFiles | None) -> list[list[Links]]:
    """Read files of links, and check them against the texts if there are any.

    Raises: DataError as in `read_links`, and for a link to a word that does not exist.
    """
    links = [read_alignment(path) for path in paths]  # each is read only once: it may be a pipe
    count, of, sizes = len(links[0]), str(paths[0]), None
    if texts:
        count, of, sizes = texts.count_pairs(), str(texts), count_pair_words(texts)
    for path, lines in zip(paths, links, strict=True):
        check_line_count(path, len(lines), count, of)
        if sizes is not None:
            check_all_links(path, lines, sizes, of)
    return links


def count_pair_words(texts: TextFiles) -> list[tuple[int, int]]:
    """The number of words of source and target, for each pair."""
    return [(len(words(source)), len(words(target))) for source, target in texts.pairs()]


def combine_directions(
    options: AlignOptions, directions: Sequence[Iterable[PairLinks]], reference: Sequence[Links]
) -> tuple[bool, dict[str, LinkCounts]]:
    """Write the links of each pair if there is an output; score them if there is a reference.

    Args:
        directions: links of one or two directions: those of each pair, source first, or None if it
            cannot be aligned.
        reference: reference links of each pair; empty if there are none.

    Returns: True if all pairs could be aligned; and the counts of right and wrong links by
        direction and heuristic, first for the links that are written.
    """
    heuristic = options.directions.symmetrize or HEURISTICS[-1]
    names = [heuristic, *DIRECTIONS, *HEURISTICS] if len(directions) == 2 else ["links"]
    rates = dict.fromkeys(names if reference else [], LinkCounts(0, 0, 0, 0))
    wanted = (HEURISTICS if reference else [heuristic]) if len(directions) == 2 else []
    whole = True
    with replacing(options.output) if options.output else nullcontext() as file:
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
    """The error rates of the written links as text: `AER 0.137, precision 0.830, recall 0.898, F1
    0.862`; for two directions, also a table of all heuristics.
    """
    if not rates:
        return []
    name, counts = next(iter(rates.items()))
    line = ", ".join(f"{heading} {value:.3f}" for heading, value in error_rates(counts).items())
    return [f"{name}: {line}", *rates_table(rates)] if len(rates) > 1 else [line]


def print_results(as_json: bool, words: Sequence[str], summary: dict[str, Any]) -> None:
    """Print the lines, or the summary as JSON."""
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        for text in words:
            print(printable(text))


def outcome_entry(output: Path | None, rates: Mapping[str, LinkCounts]) -> dict[str, Any]:
    """The output and the error rates, for JSON."""
    fields: dict[str, Any] = {"output": str(output) if output else None}
    entries = {name: rates_entry(counts) for name, counts in rates.items()}
    first = next(iter(entries), None)
    if first is None:
        return fields
    if len(entries) == 1:
        return fields | entries[first]
    return {**fields, "symmetrize": first, **entries[first], "all": entries}


def report_links(
    options: AlignOptions,
    directions: Sequence[Iterable[PairLinks]],
    reference: Sequence[Links],
    lines: Sequence[str],
    summary: dict[str, Any],
) -> int:
    """Write and score links, and print the result; other arguments as in `combine_directions`.

    Args:
        lines: lines to print before the error rates.
        summary: entries to print as JSON, together with the error rates.

    Returns: 1 if a pair could not be aligned, else 0.
    """
    whole, rates = combine_directions(options, directions, reference)
    summary |= outcome_entry(options.output, rates)
    print_results(options.json, [*lines, *describe_rates(rates)], summary)
    return 0 if whole else 1


def align_links(options: AlignOptions) -> int:
    """Score or combine the links of --links. Returns: 0."""
    output, gold = options.output, options.files.gold
    paths = [*options.directions.links, *filter(None, [gold])]
    links = read_link_files(paths, options.files.texts)
    count, reference = len(links[0]), links.pop() if gold else []
    # Links that an aligner marks as possible count as links.
    possible = [[pair.possible for pair in lines] for lines in links]
    written = [f"{output}: {format_count(count, 'line')}"] if output else []
    return report_links(options, possible, reference, written, {})

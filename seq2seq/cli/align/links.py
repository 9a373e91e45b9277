"""Links of whole files, by models or any aligner: symmetrized, written, and scored."""

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from seq2seq.data.text import check_parallel, read_lines
from seq2seq.errors import ConfigError, shown

if TYPE_CHECKING:
    from seq2seq.alignment.links import Link, LinkCounts, Links

    PairLinks = set[Link] | None

HEADINGS = ("AER", "precision", "recall", "F1")


def values(counts: "LinkCounts") -> tuple[float, ...]:
    return counts.aer, counts.precision, counts.recall, counts.f1


def line(counts: "LinkCounts") -> str:
    """`AER 0.137, precision 0.830, recall 0.898, F1 0.862`."""
    pairs = zip(HEADINGS, values(counts), strict=True)
    return ", ".join(f"{name} {value:.3f}" for name, value in pairs)


def rates_table(rows: Sequence[tuple[str, "LinkCounts"]]) -> list[str]:
    """A line for each, under headings."""
    lines = ["  ".join(f"{name:>9}" for name in HEADINGS)]
    for name, counts in rows:
        lines.append("  ".join(f"{value:9.3f}" for value in values(counts)) + f"  {name}")
    return lines


def entry(counts: "LinkCounts") -> dict[str, float]:
    """For JSON: the rates and their counts."""
    rates = zip((name.lower() for name in HEADINGS), values(counts), strict=True)
    return {**dict(rates), **counts._asdict()}


LINKS = ".align"
USUAL = "grow-diag-final-and"
DIRECTIONS = ("forward", "reverse")


class Outcome(NamedTuple):
    """Could all pairs be aligned, and how do the links agree with the reference, by direction and
    heuristic? The first rates are those of the links that are written.
    """

    whole: bool
    rates: "dict[str, LinkCounts]"


def add_directions(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("both directions")
    group.add_argument(
        "--reverse", metavar="PATH", help="a model from target to source, to combine with PATH"
    )
    group.add_argument(
        "--links",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="instead of PATH: links from any aligner, one or two directions, source first",
    )
    group.add_argument(
        "--symmetrize",
        choices=("intersection", "union", "grow-diag", "grow-diag-final", USUAL),
        help=f"how to combine two directions ({USUAL})",
    )


def check_links_output(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError unless links are written to a .align file, or scored."""
    output: Path | None = arguments.output
    if output is None and arguments.gold is None:
        raise ConfigError(
            f"no output is asked for: -o FILE{LINKS} writes links, a line for each pair; --gold "
            f"FILE{LINKS} compares with reference links"
        )
    if output is not None and output.suffix != LINKS:
        raise ConfigError(
            f"-o {output}: for files, write links, a line for each pair: -o FILE{LINKS}; or a page "
            "of the first pairs: -o FILE.html"
        )


def check_symmetrize(arguments: argparse.Namespace, directions: int) -> None:
    """Raises: ConfigError for --symmetrize with one direction."""
    if arguments.symmetrize and directions == 1:
        raise ConfigError(
            f"--symmetrize {arguments.symmetrize} combines two directions: add --reverse "
            "MODEL, or give --links two files"
        )


def names(arguments: argparse.Namespace) -> str:
    """The files of the pairs, for messages."""
    return f"{arguments.source_file} and {arguments.target_file}"


def read_links(path: Path, count: int, of: str) -> "list[Links]":
    """The links of `count` pairs.

    Raises: DataError naming the line of an invalid link, or both counts if there are not as many
        lines as pairs.
    """
    from seq2seq.alignment.links import check_count, read_alignment

    links = read_alignment(path)
    check_count(path, len(links), count, of)
    return links


def word_counts(source: Path, target: Path) -> list[tuple[int, int]]:
    """Words of source and target of each pair."""
    from seq2seq.alignment.links import words

    pairs = zip(read_lines(source), read_lines(target), strict=True)
    return [(len(words(s)), len(words(t))) for s, t in pairs]


def combine(
    arguments: argparse.Namespace,
    directions: Sequence[Iterable["PairLinks"]],
    reference: Sequence["Links"],
) -> Outcome:
    """Write a line for each pair if there is an output, and score if there is a reference.

    Args:
        directions: one or two; for each pair its links, source first, or None if it cannot be
            aligned.
        reference: of each pair, or empty.
    """
    from seq2seq.alignment.links import LinkCounts, Links, format_links
    from seq2seq.alignment.symmetrize import HEURISTICS, symmetrize

    heuristic = arguments.symmetrize or USUAL
    names = [heuristic, *DIRECTIONS, *HEURISTICS] if len(directions) == 2 else ["links"]
    rates = dict.fromkeys(names if reference else [], LinkCounts(0, 0, 0, 0))
    wanted = (HEURISTICS if reference else [heuristic]) if len(directions) == 2 else []
    whole = True
    with opened(arguments.output) as file:
        for row, pair in enumerate(zip(*directions, strict=True)):
            known = [links for links in pair if links is not None]
            if len(known) < len(pair):
                whole, known = False, [set() for _ in pair]
            by_name = {"links": known[0], **dict(zip(DIRECTIONS, known, strict=False))}
            for name in wanted:
                by_name[name] = symmetrize(known[0], known[1], name)
            if file is not None:
                file.write(format_links(by_name[names[0]]) + "\n")
            expected = reference[row] if reference else Links(set(), set())
            for name, counts in rates.items():
                rates[name] = LinkCounts.total([counts, LinkCounts.of(by_name[name], *expected)])
    return Outcome(whole, rates)


@contextmanager
def opened(output: Path | None) -> Iterator[TextIO | None]:
    """A file that replaces the old one only once it is complete."""
    if output is None:
        yield None
        return
    device = output.exists() and not output.is_file()  # as /dev/stdout
    fresh = output if device else output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        if not device:
            fresh.replace(output)
    finally:
        if not device:
            fresh.unlink(missing_ok=True)


def rates_in_words(outcome: Outcome) -> list[str]:
    """A line; with two directions a table of all heuristics as well."""
    if not outcome.rates:
        return []
    first, *others = outcome.rates.items()
    if not others:
        return [line(first[1])]
    return [f"{first[0]}: {line(first[1])}", *rates_table(list(outcome.rates.items()))]


def show(arguments: argparse.Namespace, words: Sequence[str], summary: dict[str, Any]) -> None:
    """Print the words or, with --json, the summary."""
    if arguments.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        for text in words:
            print(shown(text))


def outcome_entry(arguments: argparse.Namespace, outcome: Outcome) -> dict[str, Any]:
    """For JSON: the output and the rates."""
    fields: dict[str, Any] = {"output": str(arguments.output) if arguments.output else None}
    if len(outcome.rates) > 1:
        fields["symmetrize"] = next(iter(outcome.rates))
    if outcome.rates:
        fields |= entry(next(iter(outcome.rates.values())))
    if len(outcome.rates) > 1:
        fields["all"] = {name: entry(counts) for name, counts in outcome.rates.items()}
    return fields


def align_links(arguments: argparse.Namespace) -> int:
    """`seq2seq align --links`. Returns: 0."""
    paths: list[Path] = arguments.links
    if len(paths) > 2:
        raise ConfigError(
            f"--links takes one file, or one for each of two directions; {len(paths)} are given"
        )
    check_links_output(arguments)
    check_symmetrize(arguments, len(paths))
    from seq2seq.alignment.links import (
        check_count,
        check_range,
        read_alignment,  # only here: torch takes a second
    )

    if arguments.gold:
        paths = [*paths, arguments.gold]
    if arguments.source_file:
        count, of = check_parallel(arguments.source_file, arguments.target_file), names(arguments)
    links = [read_alignment(path) for path in paths]  # each once: it may be a pipe
    if not arguments.source_file:
        count, of = len(links[0]), str(paths[0])
    for path, lines in zip(paths, links, strict=True):
        check_count(path, len(lines), count, of)
    if arguments.source_file:
        sizes = word_counts(arguments.source_file, arguments.target_file)
        for path, lines in zip(paths, links, strict=True):
            check_range(path, lines, sizes, of)
    reference = links.pop() if arguments.gold else []
    # The possible links of an aligner count as links, too.
    outcome = combine(arguments, [[pair.possible for pair in lines] for lines in links], reference)
    written = [f"{arguments.output}: {count:,} lines"] if arguments.output else []
    show(arguments, [*written, *rates_in_words(outcome)], outcome_entry(arguments, outcome))
    return 0

"""Links of whole files: by a model, by two, or by any aligner; and how far from those by hand."""

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

    Found = set[Link] | None

HEADINGS = ("AER", "precision", "recall", "F1")


def values(counts: "LinkCounts") -> tuple[float, ...]:
    return counts.aer, counts.precision, counts.recall, counts.f1


def line(counts: "LinkCounts") -> str:
    """`AER 0.137, precision 0.830, recall 0.898, F1 0.862`."""
    pairs = zip(HEADINGS, values(counts), strict=True)
    return ", ".join(f"{name} {value:.3f}" for name, value in pairs)


def table(rows: Sequence[tuple[str, "LinkCounts"]]) -> list[str]:
    """A line for each, under headings."""
    found = ["  ".join(f"{name:>9}" for name in HEADINGS)]
    for name, counts in rows:
        found.append("  ".join(f"{value:9.3f}" for value in values(counts)) + f"  {name}")
    return found


def entry(counts: "LinkCounts") -> dict[str, float]:
    """For JSON: the rates, and the counts that they are made of."""
    rates = zip((name.lower() for name in HEADINGS), values(counts), strict=True)
    return {**dict(rates), **counts._asdict()}


LINKS = ".align"
USUAL = "grow-diag-final-and"
DIRECTIONS = ("forward", "reverse")


class Outcome(NamedTuple):
    """What became of all pairs: whether each could be aligned, and how the links agree with those
    by hand, by direction and heuristic; the first is of the links that are written.
    """

    whole: bool
    rates: "dict[str, LinkCounts]"


def add_directions(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("both directions")
    group.add_argument(
        "--reverse", metavar="PATH", help="a model from target to source, to be put together with"
    )
    group.add_argument(
        "--links",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="instead of PATH: links of any aligner, or of two directions, all source first",
    )
    group.add_argument(
        "--symmetrize",
        choices=("intersection", "union", "grow-diag", "grow-diag-final", USUAL),
        help=f"how two directions are put together ({USUAL})",
    )


def check_links_output(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError if it is not said where links go, or nothing is asked of them."""
    output: Path | None = arguments.output
    if output is None and arguments.gold is None:
        raise ConfigError(
            f"it is not said what is wanted of files: -o FILE{LINKS} writes links, a line for each "
            f"pair; --gold FILE{LINKS} compares with links made by hand"
        )
    if output is not None and output.suffix != LINKS:
        raise ConfigError(
            f"-o {output}: of files links are written, a line for each pair: -o FILE{LINKS}; or a "
            "page of the first ones: -o FILE.html"
        )


def check_symmetrize(arguments: argparse.Namespace, directions: int) -> None:
    """Raises: ConfigError if two directions are to be put together where there is one."""
    if arguments.symmetrize and directions == 1:
        raise ConfigError(
            f"--symmetrize {arguments.symmetrize} puts two directions together: add --reverse "
            "MODEL, or give --links two files"
        )


def names(arguments: argparse.Namespace) -> str:
    """What holds the pairs, for messages."""
    return f"{arguments.source_file} and {arguments.target_file}"


def read_links(path: Path, count: int, of: str) -> "list[Links]":
    """The links of so many pairs.

    Raises: DataError naming the line of what is not a link, or both counts if there are more or
        fewer lines than pairs.
    """
    from seq2seq.alignment.links import check_count, read_alignment

    links = read_alignment(path)
    check_count(path, len(links), count, of)
    return links


def word_counts(source: Path, target: Path) -> list[tuple[int, int]]:
    """How many words each sentence of each pair has."""
    from seq2seq.alignment.links import words

    pairs = zip(read_lines(source), read_lines(target), strict=True)
    return [(len(words(s)), len(words(t))) for s, t in pairs]


def put_together(
    arguments: argparse.Namespace,
    directions: Sequence[Iterable["Found"]],
    gold: Sequence["Links"],
) -> Outcome:
    """Write a line for each pair if there is a file to write, and count if there is gold.

    Args:
        directions: one or two; for each pair its links, source first, or None if it cannot be
            aligned.
        gold: of each pair, or nothing.
    """
    from seq2seq.alignment.links import LinkCounts, Links, format_links
    from seq2seq.alignment.symmetrize import HEURISTICS, symmetrize

    heuristic = arguments.symmetrize or USUAL
    names = [heuristic, *DIRECTIONS, *HEURISTICS] if len(directions) == 2 else ["links"]
    rates = dict.fromkeys(names if gold else [], LinkCounts(0, 0, 0, 0))
    wanted = (HEURISTICS if gold else [heuristic]) if len(directions) == 2 else []
    whole = True
    with opened(arguments.output) as file:
        for number, pair in enumerate(zip(*directions, strict=True)):
            known = [links for links in pair if links is not None]
            if len(known) < len(pair):
                whole, known = False, [set() for _ in pair]
            found = {"links": known[0], **dict(zip(DIRECTIONS, known, strict=False))}
            for name in wanted:
                found[name] = symmetrize(known[0], known[1], name)
            if file is not None:
                file.write(format_links(found[names[0]]) + "\n")
            hand = gold[number] if gold else Links(set(), set())
            for name, counts in rates.items():
                rates[name] = LinkCounts.total([counts, LinkCounts.of(found[name], *hand)])
    return Outcome(whole, rates)


@contextmanager
def opened(output: Path | None) -> Iterator[TextIO | None]:
    """A file that takes the place of what stood there when all is written, and not before."""
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
    """Of one direction a line; of two the line of what is written, and a table of all."""
    if not outcome.rates:
        return []
    first, *others = outcome.rates.items()
    if not others:
        return [line(first[1])]
    return [f"{first[0]}: {line(first[1])}", *table(list(outcome.rates.items()))]


def report(arguments: argparse.Namespace, words: Sequence[str], facts: dict[str, Any]) -> None:
    """Print the one or, with --json, the other."""
    if arguments.json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        for text in words:
            print(shown(text))


def facts_of(arguments: argparse.Namespace, outcome: Outcome) -> dict[str, Any]:
    """What is always said in JSON."""
    found: dict[str, Any] = {"output": str(arguments.output) if arguments.output else None}
    if len(outcome.rates) > 1:
        found["symmetrize"] = next(iter(outcome.rates))
    if outcome.rates:
        found |= entry(next(iter(outcome.rates.values())))
    if len(outcome.rates) > 1:
        found["all"] = {name: entry(counts) for name, counts in outcome.rates.items()}
    return found


def align_links(arguments: argparse.Namespace) -> int:
    """Returns: 0."""
    paths: list[Path] = arguments.links
    if len(paths) > 2:
        raise ConfigError(
            f"--links takes one file, or one for each of two directions; here are {len(paths)}"
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

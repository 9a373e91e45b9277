"""Alignments as text: a line of links for each pair, and how far from links made by hand."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.cli.choice import choose, in_words
from seq2seq.data.text import check_parallel, read_lines
from seq2seq.errors import ConfigError, DataError

if TYPE_CHECKING:
    from seq2seq.evaluation.alignment import Links
    from seq2seq.evaluation.maps import Alignment, Choice

LINKS = ".align"
FIRST = 200  # pairs by which the layer for a whole file is chosen


def align_files(arguments: argparse.Namespace) -> int:
    """Returns: 1 if a pair could not be aligned, else 0."""
    output: Path = arguments.output
    if output.suffix != LINKS:
        raise ConfigError(
            f"-o {output}: of files links are written, a line for each pair: -o FILE{LINKS}"
        )
    count = check_parallel(arguments.source_file, arguments.target_file)
    from seq2seq.translator import Translator  # only here: torch takes a second

    gold = read_gold(arguments.gold, count) if arguments.gold else None
    translator = Translator.load(arguments.path, arguments.device, arguments.tag)
    texts = zip(read_lines(arguments.source_file), read_lines(arguments.target_file), strict=True)
    alignments = translator.alignments(texts, units=arguments.units)
    first = beginning(alignments)
    known = [alignment for alignment in first if alignment is not None]
    choice = choose(arguments, known) if known else None
    whole = write_links(output, chain(first, alignments), choice)
    said = in_words(arguments, choice, known) if choice else "empty, since no pair can be aligned"
    print(f"{output}: {said}")
    if gold is not None:
        print(f"AER {error_rate(output, gold):.3f}")
    return 0 if whole else 1


def beginning(alignments: Iterator["Alignment | None"]) -> list["Alignment | None"]:
    """The first of all that are to come, and as many more as it takes until one is known."""
    found: list[Alignment | None] = []
    while not any(found) and (more := list(islice(alignments, FIRST))):
        found += more
    return found


def write_links(
    path: Path, alignments: Iterable["Alignment | None"], choice: "Choice | None"
) -> bool:
    """A line for each alignment, empty for None. Returns: whether there was no None."""
    from seq2seq.evaluation.alignment import format_links

    whole = True
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for alignment in alignments:
            if alignment is None or choice is None:
                whole = False
                file.write("\n")
            else:
                file.write(format_links(alignment.links(choice)) + "\n")
    return whole


def read_gold(path: Path, count: int) -> list["Links"]:
    """Links made by hand for so many pairs. Raises: DataError if there are more or fewer."""
    from seq2seq.evaluation.alignment import read_alignment

    gold = read_alignment(path)
    if len(gold) != count:
        raise DataError(
            f"{path} has {len(gold)} lines of links for {count} pairs: one for each, empty if a "
            "pair has none"
        )
    return gold


def error_rate(path: Path, gold: list["Links"]) -> float:
    """The alignment error rate of the links that a file holds."""
    from seq2seq.evaluation.alignment import alignment_error_rate, read_alignment

    predicted = [links.sure for links in read_alignment(path)]
    sure, possible = [links.sure for links in gold], [links.possible for links in gold]
    return alignment_error_rate(predicted, sure, possible)

"""Alignments as one HTML page, of a sentence pair or of the first pairs of two files."""

import argparse
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.cli.align import choice
from seq2seq.data.text import check_parallel, read_lines
from seq2seq.errors import ConfigError, DataError, shown

if TYPE_CHECKING:
    from seq2seq.alignment.choice import Alignment
    from seq2seq.translator import Translator

PAGE = ".html"
# What a browser opens without delay: pairs, and weights of a byte each.
MAX_PAIRS, MAX_WEIGHTS = 100, 20_000_000


def align_page(arguments: argparse.Namespace) -> int:
    """Returns: 1 if a pair could not be aligned, else 0."""
    check_page_options(arguments)
    text = arguments.source is not None
    count = 1 if text else check_parallel(arguments.source_file, arguments.target_file)
    from seq2seq import checkpoint  # only here: torch takes a second
    from seq2seq.pages.page import write_page
    from seq2seq.translator import Translator

    path = checkpoint.find(Path(arguments.path))
    translator = Translator.load(path, arguments.device, arguments.tag)
    if text:
        sentence = arguments.source, arguments.target
        read: list[Alignment | None] = [translator.align(*sentence, units=arguments.units)]
    else:
        read = first_pairs(translator, arguments)
    known = [alignment for alignment in read if alignment is not None]
    if not known:
        raise DataError("there is nothing to show: none of these pairs can be aligned")
    reading = choice.reading_of(arguments, path, translator.config, known)
    write_page(arguments.output, known, reading.choice)
    limit = f", the first {len(read)} of {count:,} pairs" if len(read) < count else ""
    print(shown(f"{arguments.output}: {reading.in_words()}{limit}"))
    return int(len(known) < len(read))


def check_page_options(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError for options that are for links."""
    for option in ("gold", "choose", "reverse", "links", "json"):
        if getattr(arguments, option):
            raise ConfigError(
                f"--{option} is for links, and a page shows one model: leave it out, or write "
                "links with -o FILE.align"
            )


def first_pairs(
    translator: "Translator", arguments: argparse.Namespace
) -> list["Alignment | None"]:
    """The alignments of the first pairs of two files, None where a pair cannot be aligned."""
    files: tuple[Path, Path] = arguments.source_file, arguments.target_file
    texts = islice(zip(*map(read_lines, files), strict=True), MAX_PAIRS)
    return fitting(translator.alignments(texts, units=arguments.units))


def fitting(alignments: Iterable["Alignment | None"]) -> list["Alignment | None"]:
    """The first alignments, up to `MAX_WEIGHTS` weights in all, and at least one."""
    first: list[Alignment | None] = []
    total = 0
    for alignment in alignments:
        total += 0 if alignment is None else alignment.weights.numel()
        if first and total > MAX_WEIGHTS:
            break
        first.append(alignment)
    return first

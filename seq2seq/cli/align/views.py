"""Alignments to look at: a sentence pair as a picture, or pairs of two files as an HTML page."""

from argparse import Namespace
from itertools import islice
from pathlib import Path

from seq2seq.alignment.choice import Alignment
from seq2seq.alignment.links import format_links
from seq2seq.base.durable import write_text
from seq2seq.base.errors import DataError, printable
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.cli.align import choice
from seq2seq.data.text.lines import check_parallel, read_lines
from seq2seq.pages.page import write_page
from seq2seq.pages.plots import picture_format, plot_alignment
from seq2seq.translation.translator import Translator

# What a browser opens without delay: pairs, and weights of a byte each.
MAX_PAIRS, MAX_WEIGHTS = 100, 20_000_000


def align_sentence(arguments: Namespace) -> int:
    output: Path = arguments.output
    if output.suffix != ".align":
        picture_format(output, ".align", ".html")
    path = find_checkpoint(Path(arguments.path))
    translator = Translator.load(path, arguments.device, arguments.tag)
    alignment = translator.align(arguments.source, arguments.target, units=arguments.units)
    reading = choice.select_choice(arguments, path, translator.config, [alignment])
    apart = arguments.heads == "all"
    if output.suffix == ".align":
        links = format_links(alignment.links(reading.choice))
        write_text(output, f"{links}\n")
    else:
        weights = alignment.map(reading.choice)
        if apart:
            weights = alignment.weights[reading.choice.shift, reading.choice.layer]
        words = [w.text for w in alignment.source], [w.text for w in alignment.target]
        plot_alignment(weights[..., :-1], *words, path=output)
    print(printable(f"{output}: {reading.describe(apart=apart)}"))
    return 0


def align_page(arguments: Namespace) -> int:
    """Returns: 1 if a pair could not be aligned, else 0."""
    text = arguments.source is not None
    files = arguments.source_file, arguments.target_file
    count = 1 if text else check_parallel(*files, "aligning")
    path = find_checkpoint(Path(arguments.path))
    translator = Translator.load(path, arguments.device, arguments.tag)
    if text:
        sentence = arguments.source, arguments.target
        read: list[Alignment | None] = [translator.align(*sentence, units=arguments.units)]
    else:
        read = first_pairs(translator, arguments)
    known = [alignment for alignment in read if alignment is not None]
    if not known:
        raise DataError("there is nothing to show: none of these pairs can be aligned")
    reading = choice.select_choice(arguments, path, translator.config, known)
    write_page(arguments.output, known, reading.choice)
    limit = f", the first {len(read)} of {count:,} pairs" if len(read) < count else ""
    print(printable(f"{arguments.output}: {reading.describe()}{limit}"))
    return int(len(known) < len(read))


def first_pairs(translator: Translator, arguments: Namespace) -> list[Alignment | None]:
    """The alignments of the first pairs of two files, None where a pair cannot be aligned: up to
    `MAX_PAIRS`, with up to `MAX_WEIGHTS` weights in all, and at least one.
    """
    files: tuple[Path, Path] = arguments.source_file, arguments.target_file
    texts = islice(zip(*map(read_lines, files), strict=True), MAX_PAIRS)
    first: list[Alignment | None] = []
    total = 0
    for alignment in translator.alignments(texts, units=arguments.units):
        total += 0 if alignment is None else alignment.weights.numel()
        if first and total > MAX_WEIGHTS:
            break
        first.append(alignment)
    return first

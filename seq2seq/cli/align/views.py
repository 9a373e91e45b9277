"""Show alignments: of one sentence as a picture, or of two files as an HTML page."""

from itertools import islice
from pathlib import Path

from seq2seq.alignment.choice import Alignment, Units
from seq2seq.alignment.links import format_links
from seq2seq.base.durable import write_text
from seq2seq.base.errors import DataError, printable
from seq2seq.cli.align.choice import select_choice
from seq2seq.cli.align.options import LINKS, PAGE, AlignOptions, Sentence, TextFiles
from seq2seq.pages.page import write_page
from seq2seq.pages.plots import picture_format, plot_alignment
from seq2seq.translation.translator import Translator

# Number of pairs, and of weights of one byte, that a browser opens without delay.
MAX_PAIRS, MAX_WEIGHTS = 100, 20_000_000


def show(options: AlignOptions, model: Path, given: Sentence | TextFiles, output: Path) -> int:
    """Write a page of pairs; or a picture of a sentence pair, or its links.

    Returns: 1 if a pair could not be aligned, else 0.
    """
    if output.suffix not in (LINKS, PAGE):
        picture_format(output, LINKS, PAGE)
    count = given.count_pairs() if isinstance(given, TextFiles) else 1
    translator = Translator.load(model, options.device, options.tag, options.languages)
    if isinstance(given, TextFiles):
        read = first_pairs(translator, given, options.units)
    else:
        read = [translator.align(*given, units=options.units)]
    known = [alignment for alignment in read if alignment is not None]
    if not known:
        raise DataError("there is nothing to show: none of these pairs can be aligned")
    reading = select_choice(options.choice, model, translator)
    apart = options.choice.heads == "all" and output.suffix != PAGE
    if output.suffix == PAGE:
        write_page(output, known, reading.choice)
    elif output.suffix == LINKS:
        write_text(output, f"{format_links(known[0].links(reading.choice))}\n")
    else:
        chosen, weights = reading.choice, known[0].map(reading.choice)
        if apart:
            weights = known[0].weights[chosen.shift, chosen.layer]
        words = [[word.text for word in side] for side in (known[0].source, known[0].target)]
        plot_alignment(weights[..., :-1], *words, path=output)
    limit = f", the first {len(read)} of {count:,} pairs" if len(read) < count else ""
    print(printable(f"{output}: {reading.describe(apart=apart)}{limit}"))
    return int(len(known) < len(read))


def first_pairs(translator: Translator, texts: TextFiles, units: Units) -> list[Alignment | None]:
    """The alignments of the first pairs of two files, None for a pair that cannot be aligned. Stops
    after `MAX_PAIRS` pairs, or before their weights exceed `MAX_WEIGHTS`.
    """
    first: list[Alignment | None] = []
    total = 0
    for alignment in translator.alignments(islice(texts.pairs(), MAX_PAIRS), units=units):
        total += 0 if alignment is None else alignment.weights.numel()
        if first and total > MAX_WEIGHTS:
            break
        first.append(alignment)
    return first

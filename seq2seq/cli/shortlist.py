"""Make the shortlist of a model: for each source piece, the target pieces that can translate it.

    seq2seq shortlist RUN --source a.de --target a.en --align            links by the model itself
    seq2seq shortlist RUN --source a.de --target a.en --links a.align    links by any aligner
    seq2seq shortlist RUN --lexicon lex.s2t.gz      Marian's: target, source, probability

The shortlist is written to shortlist.bin in the folder of the run. From then on, `translate`,
`evaluate` and `serve` use it, and say so. A translation then consists of frequent pieces and of
pieces listed for its own source, which is faster, especially with a large vocabulary.
"""

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.align.options import ChoiceOptions, TextFiles
from seq2seq.cli.files import InputPath, folder_of
from seq2seq.cli.models import ModelOptions
from seq2seq.cli.options import flag, value
from seq2seq.data.text.lines import read_lines

if TYPE_CHECKING:
    from seq2seq.decoding.shortlist.build import LinkedPair
    from seq2seq.translation.translator import Translator

HELP = "list the likely pieces of translations, which makes decoding faster"
SAMPLE = 1000  # number of sources whose lists are counted
ENOUGH = 0.95  # share of the pieces of translations that lists should contain
MISSING = "of the pieces of these translations are on no list: raise --per-piece, or give --links"
FREQUENT = "number of frequent target pieces allowed in any translation (%(default)s)"
LIKELY = "number of likely target pieces for each source piece (%(default)s)"


class ShortlistOptions(ModelOptions):
    """The options of `seq2seq shortlist`."""

    source_file: InputPath | None = value("may be .gz", "FILE", "--source")
    target_file: InputPath | None = value("its translations", "FILE", "--target")
    align: bool = flag("link words as seq2seq align does", either=True)
    links: InputPath | None = value("links of words, a line for each pair", "FILE", either=True)
    lexicon: InputPath | None = value("pairs of pieces by Marian, may be .gz", "FILE", either=True)
    frequent: int = value(FREQUENT, "N", default=100)
    per_piece: int = value(LIKELY, "N", default=50)


def run(options: ShortlistOptions) -> None:
    texts = None
    if options.source_file and options.target_file:
        texts = TextFiles(options.source_file, options.target_file)
        texts.count_pairs()  # checks them
    if not (options.lexicon or texts):
        kind = "--align" if options.align else "--links"
        raise ConfigError(f"{kind} is for text: add --source FILE and --target FILE")
    from seq2seq.cli.align.links import read_link_files  # only here: torch takes a second
    from seq2seq.decoding.shortlist import build
    from seq2seq.decoding.shortlist.file import NAME, write_shortlist
    from seq2seq.text.tokenization.tokenizer import Tokenizers
    from seq2seq.translation.translator import Translator

    translator = Translator.load(options.path, options.device, options.tag, options.languages)
    tokenizers = Tokenizers(translator.source, translator.target)
    if options.lexicon:
        counts, left_out = build.read_lexicon(options.lexicon, tokenizers)
        used, total = len(counts.weights), left_out + len(counts.weights)
        print(printable(f"{options.lexicon}: {used:,} of {total:,} pairs are used"))
    elif texts and options.links:
        (links,) = read_link_files([options.links], texts)
        linked = zip(texts.pairs(), links, strict=True)
        pairs = (build.LinkedPair(*pair, each) for pair, each in linked)
        counts = build.count_pieces(pairs, tokenizers)
    elif texts:
        counts = build.count_pieces(align_pairs(texts, options.path, translator), tokenizers)
    lists = build.build_shortlist(counts, tokenizers, options.frequent, options.per_piece)
    file = folder_of(options.path) / NAME
    write_shortlist(file, lists, tokenizers)
    found = f"{len(lists.ids):,} pairs of pieces"
    if options.source_file:
        first = tokenizers.source.encode_batch([*islice(read_lines(options.source_file), SAMPLE)])
        mean = fmean(len(lists.tokens(row)) for row in first)
        found += f"; {mean:.0f} of {tokenizers.target.size:,} for a sentence on average"
    if texts:
        targets = tokenizers.target.encode_batch([*islice(texts.side(1), SAMPLE)])
        share = build.share_listed(lists, first, targets)
        found += f", with {share:.1%} of the pieces of its translation"
        if share < ENOUGH:
            warnings.warn(f"{1 - share:.1%} {MISSING}", stacklevel=1)
    print(printable(f"{file}: {found}"))


def align_pairs(texts: TextFiles, model: Path, translator: "Translator") -> "Iterator[LinkedPair]":
    """The pairs that the model can align, with its links."""
    from seq2seq.alignment.links import Links
    from seq2seq.cli.align.choice import select_choice
    from seq2seq.decoding.shortlist.build import LinkedPair

    is_empty, reading = True, select_choice(ChoiceOptions(), model, translator)
    print(printable(f"aligned by {reading.describe()}"))
    for pair, alignment in zip(texts.pairs(), translator.alignments(texts.pairs()), strict=True):
        if alignment is not None:
            is_empty = False
            links = alignment.links(reading.choice)
            words = alignment.source, alignment.target
            yield LinkedPair(*pair, Links(links, links), words)
    if is_empty:
        raise ConfigError("there is nothing to list: no pair can be aligned")

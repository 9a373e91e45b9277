"""Make the shortlist of a model: for each source piece, the target pieces that may translate it.

    seq2seq shortlist RUN --source a.de --target a.en --align            links by the model itself
    seq2seq shortlist RUN --source a.de --target a.en --links a.align    links by any aligner
    seq2seq shortlist RUN --lexicon lex.s2t.gz      Marian's: target, source, probability

It is written to shortlist.bin in the folder of the run. `translate`, `evaluate` and `serve` use it
from then on, and say so: a translation consists of pieces on the lists of its own source, and of a
few that are frequent. That is faster, the more so the larger the vocabulary.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.files import InputPath, check_written, folder_of, inputs_of
from seq2seq.cli.options import Option, add_model, add_options, positive

if TYPE_CHECKING:
    from seq2seq.decoding.shortlist.build import LinkedPair
    from seq2seq.translation.translator import Translator

HELP = "make a list of the likely pieces of translations, which makes decoding faster"
SAMPLE = 1000  # sources whose lists are counted
FREQUENT = "the most frequent target pieces that may stand in any translation (%(default)s)"
LIKELY = "likeliest target pieces of each source piece (%(default)s)"
SIZES = {
    "frequent": Option(positive, "N", FREQUENT, 100),
    "per_piece": Option(positive, "N", LIKELY, 50),
}


def add_arguments(command: ArgumentParser) -> None:
    add_model(command)
    add = command.add_argument
    add("--source", dest="source_file", type=InputPath, metavar="FILE", help="may be .gz")
    add("--target", dest="target_file", type=InputPath, metavar="FILE", help="its translations")
    add = command.add_mutually_exclusive_group(required=True).add_argument
    add("--align", action="store_true", help="link words as seq2seq align does")
    add("--links", type=InputPath, metavar="FILE", help="links of words, a line for each pair")
    add("--lexicon", type=InputPath, metavar="FILE", help="pairs of pieces by Marian, may be .gz")
    add_options(command, SIZES)


def run(arguments: Namespace) -> int:
    check_written(None, *inputs_of(arguments))
    if not (arguments.lexicon or (arguments.source_file and arguments.target_file)):
        option = "--align" if arguments.align else "--links"
        raise ConfigError(f"{option} is for text: add --source FILE and --target FILE")
    from seq2seq.data.text.lines import read_lines  # only here: torch takes a second
    from seq2seq.decoding.shortlist.build import build_shortlist, count_pieces, read_lexicon
    from seq2seq.decoding.shortlist.file import NAME, write_shortlist
    from seq2seq.text.tokenization.tokenizer import Tokenizers
    from seq2seq.translation.translator import Translator

    translator = Translator.load(arguments.path, arguments.device, arguments.tag)
    tokenizers = Tokenizers(translator.source, translator.target)
    if arguments.lexicon:
        counts, left_out = read_lexicon(arguments.lexicon, tokenizers)
        used, total = len(counts.weights), left_out + len(counts.weights)
        print(printable(f"{arguments.lexicon}: {used:,} of {total:,} pairs are used"))
    else:
        read = align_pairs if arguments.align else read_linked_pairs
        counts = count_pieces(read(arguments, translator), tokenizers)
    lists = build_shortlist(counts, tokenizers, arguments.frequent, arguments.per_piece)
    file = folder_of(Path(arguments.path)) / NAME
    write_shortlist(file, lists, tokenizers)
    found = f"{len(lists.ids):,} pairs of pieces"
    if arguments.source_file:
        texts = [*islice(read_lines(arguments.source_file), SAMPLE)]
        mean = fmean(len(lists.tokens(row)) for row in tokenizers.source.encode_batch(texts))
        found += f"; {mean:.0f} of {tokenizers.target.size:,} for a sentence on average"
    print(printable(f"{file}: {found}"))
    return 0


def read_linked_pairs(arguments: Namespace, translator: "Translator") -> "Iterator[LinkedPair]":
    """The pairs of two files, with the links of a third. Raises: DataError if they do not fit."""
    from seq2seq.cli.align.links import read_link_files
    from seq2seq.data.text.lines import read_lines
    from seq2seq.decoding.shortlist.build import LinkedPair

    (links,) = read_link_files(arguments, [arguments.links])
    files = arguments.source_file, arguments.target_file
    return map(LinkedPair, *map(read_lines, files), links)


def align_pairs(arguments: Namespace, translator: "Translator") -> "Iterator[LinkedPair]":
    """The pairs of two files, with the links of the model; without those that it cannot align."""
    from seq2seq.alignment.links import Links
    from seq2seq.checkpoint.folder import find_checkpoint
    from seq2seq.cli.align.choice import choose_reading, no_options
    from seq2seq.data.text.lines import check_parallel, read_lines
    from seq2seq.decoding.shortlist.build import LinkedPair

    files = arguments.source_file, arguments.target_file
    check_parallel(*files, "aligning")
    alignments = translator.alignments(zip(*map(read_lines, files), strict=True))
    path = find_checkpoint(Path(arguments.path))
    reading, alignments = choose_reading(no_options(), path, translator.config, alignments)
    if reading is None:
        raise ConfigError("there is nothing to list: no pair can be aligned")
    print(printable(f"aligned by {reading.describe()}"))
    for source, target, alignment in zip(*map(read_lines, files), alignments, strict=True):
        if alignment is not None:
            links = alignment.links(reading.choice)
            words = alignment.source, alignment.target
            yield LinkedPair(source, target, Links(links, links), words)

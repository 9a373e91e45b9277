"""Make the shortlist of a model: for each source piece, the target pieces that may translate it.

    seq2seq shortlist RUN --source a.de --target a.en --align            links by the model itself
    seq2seq shortlist RUN --source a.de --target a.en --links a.align    links by any aligner
    seq2seq shortlist RUN --lexicon lex.s2t.gz      Marian's: target, source, probability

It is written to shortlist.bin in the folder of the run. `translate`, `evaluate` and `serve` use it
from then on, and say so: a translation consists of pieces on the lists of its own source, and of a
few that are frequent. That is faster, the more so the larger the vocabulary.
"""

import argparse
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.cli.files import InputPath, check_written, folder_of, inputs_of
from seq2seq.cli.options import add_model, positive
from seq2seq.errors import ConfigError, printable

if TYPE_CHECKING:
    from seq2seq.shortlist.build import LinkedPair, PieceCounts
    from seq2seq.tokenization.tokenizer import Tokenizers

HELP = "make a list of the likely pieces of translations, which makes decoding faster"
SAMPLE = 1000  # sources whose lists are counted


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add = command.add_argument
    add("--source", dest="source_file", type=InputPath, metavar="FILE", help="may be .gz")
    add("--target", dest="target_file", type=InputPath, metavar="FILE", help="its translations")
    add = command.add_mutually_exclusive_group(required=True).add_argument
    add("--align", action="store_true", help="link words as seq2seq align does")
    add("--links", type=InputPath, metavar="FILE", help="links of words, a line for each pair")
    add("--lexicon", type=InputPath, metavar="FILE", help="pairs of pieces by Marian, may be .gz")
    add = command.add_argument
    counts = "target pieces that may stand in any translation (%(default)s)"
    add("--frequent", type=positive, default=100, metavar="N", help=f"the most frequent {counts}")
    likely = "likeliest target pieces of each source piece (%(default)s)"
    add("--per-piece", type=positive, default=50, metavar="N", help=likely)


def run(arguments: argparse.Namespace) -> int:
    check_written(None, *inputs_of(arguments))
    files = arguments.source_file, arguments.target_file
    if not arguments.lexicon and not all(files):
        option = "--align" if arguments.align else "--links"
        raise ConfigError(f"{option} is for text: add --source FILE and --target FILE")
    from seq2seq import checkpoint  # only here: torch takes a second
    from seq2seq.shortlist.build import build_shortlist
    from seq2seq.shortlist.file import NAME, write_shortlist
    from seq2seq.tokenization.tokenizer import Tokenizers

    saved = checkpoint.read(arguments.path)
    tokenizers = Tokenizers(saved.source, saved.target)
    counts = count_pairs(arguments, tokenizers)
    lists = build_shortlist(counts, tokenizers, arguments.frequent, arguments.per_piece)
    file = folder_of(Path(arguments.path)) / NAME
    write_shortlist(file, lists, tokenizers)
    found = f"{len(lists.ids):,} pairs of pieces"
    if arguments.source_file:
        from seq2seq.data.text import read_lines

        texts = [*islice(read_lines(arguments.source_file), SAMPLE)]
        sizes = [len(lists.tokens(row)) for row in tokenizers.source.encode_batch(texts)]
        mean = sum(sizes) / len(sizes)
        found += f"; {mean:.0f} of {tokenizers.target.size:,} for a sentence on average"
    print(printable(f"{file}: {found}"))
    return 0


def count_pairs(arguments: argparse.Namespace, tokenizers: "Tokenizers") -> "PieceCounts":
    """The pairs of pieces, from what the arguments name."""
    from seq2seq.shortlist.build import count_pieces
    from seq2seq.shortlist.lexicon import read_lexicon

    if arguments.lexicon:
        counts, left_out = read_lexicon(arguments.lexicon, tokenizers)
        total = left_out + len(counts.weights)
        print(printable(f"{arguments.lexicon}: {total - left_out:,} of {total:,} pairs are used"))
        return counts
    return count_pieces(
        align_pairs(arguments) if arguments.align else read_pairs_with_links(arguments), tokenizers
    )


def read_pairs_with_links(arguments: argparse.Namespace) -> "Iterator[LinkedPair]":
    """The pairs of two files, with the links of a third. Raises: DataError if they do not fit."""
    from seq2seq.alignment.links import check_pair_links, words
    from seq2seq.cli.align.links import name_files, read_links
    from seq2seq.data.text import check_parallel, read_lines
    from seq2seq.shortlist.build import LinkedPair

    files = arguments.source_file, arguments.target_file
    count, of = check_parallel(*files, "linking"), name_files(arguments)
    lines = read_links(arguments.links, count, of)
    texts = zip(*map(read_lines, files), lines, strict=True)
    for line_no, (source, target, links) in enumerate(texts, start=1):
        known = words(source), words(target)
        sizes = len(known[0]), len(known[1])
        check_pair_links(links, sizes, f"{arguments.links}:{line_no}", of)
        yield LinkedPair(source, target, links, known)


def align_pairs(arguments: argparse.Namespace) -> "Iterator[LinkedPair]":
    """The pairs of two files, with the links of the model; without those that it cannot align."""
    from seq2seq.alignment.links import Links
    from seq2seq.checkpoint.folder import find_checkpoint
    from seq2seq.cli.align.choice import no_options, select_choice
    from seq2seq.cli.align.files import first_alignments
    from seq2seq.data.text import check_parallel, read_lines
    from seq2seq.shortlist.build import LinkedPair
    from seq2seq.translator import Translator

    files = arguments.source_file, arguments.target_file
    check_parallel(*files, "aligning")
    path = find_checkpoint(Path(arguments.path))
    translator = Translator.load(path, arguments.device, arguments.tag)
    alignments = translator.alignments(zip(*map(read_lines, files), strict=True))
    first = first_alignments(alignments)
    known = [alignment for alignment in first if alignment is not None]
    if not known:
        raise ConfigError("there is nothing to list: no pair can be aligned")
    reading = select_choice(no_options(), path, translator.config, known)
    print(printable(f"aligned by {reading.describe()}"))
    texts = zip(*map(read_lines, files), chain(first, alignments), strict=True)
    for source, target, alignment in texts:
        if alignment is not None:
            links = alignment.links(reading.choice)
            words = alignment.source, alignment.target
            yield LinkedPair(source, target, Links(links, links), words)

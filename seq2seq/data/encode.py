"""Write a corpus: encode text in chunks into files of piece ids, in constant memory."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.data.encoding_stats import EncodingStats, Report
from seq2seq.data.mixture import Component
from seq2seq.data.windows import windows
from seq2seq.tokenization.tokenizer import Tokenizer, Tokenizers

# Text is encoded in chunks; both limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
SIDES = ("source", "target")
FILES = ("ids", "offsets", "lengths")  # of each side, as in `corpus.Side`


class NumberedPair(NamedTuple):
    line: int
    source: str
    target: str


class EncodedPair(NamedTuple):
    """A pair that is kept, and the ids of both sides."""

    pair: NumberedPair
    source: list[int]
    target: list[int]


class Chunk(NamedTuple):
    """Pairs of a text: those that are kept, and the lines of those left out."""

    kept: list[EncodedPair]
    empty: list[int]
    long: list[int]


class Block(NamedTuple):
    """Encoded pairs as arrays: ids end to end, lengths, hashes; lines of the pairs left out."""

    source: np.ndarray
    source_lengths: np.ndarray
    target: np.ndarray
    target_lengths: np.ndarray
    hashes: np.ndarray
    empty: np.ndarray
    long: np.ndarray


def pairs_of(block: Block) -> int:
    """The number of pairs of the text in a block, those left out included."""
    return len(block.hashes) + len(block.empty) + len(block.long)


class SideWriter:
    """Appends rows of ids to the three files of one side, which `files` closes."""

    def __init__(self, files: ExitStack, folder: Path, side: str):
        self._ids, self._offsets, self._lengths = (
            files.enter_context((folder / f"{side}.{name}").open("wb")) for name in FILES
        )
        self._pieces = 0
        np.zeros(1, "<i8").tofile(self._offsets)

    def append(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        ids.tofile(self._ids)
        (np.cumsum(lengths, dtype="<i8") + self._pieces).tofile(self._offsets)
        lengths.tofile(self._lengths)
        self._pieces += len(ids)


def write_corpus(
    folder: Path,
    components: Sequence[Component],
    blocks: Iterable[Iterable[Block]],
    tokenizers: Tokenizers,
    max_length: int,
) -> list[EncodingStats]:
    """Write the files of a corpus, and its report.

    Args:
        blocks: of each component.

    Returns: the statistics of each component.
    Raises: DataError for a faulty file.
    """
    all_stats = [EncodingStats(Report(0, 0, max_length)) for _ in components]
    with ExitStack() as files:
        hashes = files.enter_context((folder / "hashes").open("wb"))
        sources, targets = (SideWriter(files, folder, side) for side in SIDES)
        for stats, of_component in zip(all_stats, blocks, strict=True):
            for block in of_component:
                sources.append(block.source, block.source_lengths)
                targets.append(block.target, block.target_lengths)
                block.hashes.tofile(hashes)
                lines = block.empty.tolist(), block.long.tolist()
                stats.report.count(len(block.hashes), *lines)
                stats.source.count(block.source, block.source_lengths)
                stats.target.count(block.target, block.target_lengths)
    note = {
        "accounts": [asdict(stats) for stats in all_stats],
        "duplicates": sort_hashes(folder / "hashes"),
        "ids": [kind_of(tokenizer) for tokenizer in tokenizers],
    }
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return all_stats


def kind_of(tokenizer: Tokenizer) -> str:
    """The smallest type that holds all ids of a tokenizer, such as `<u2`."""
    return np.min_scalar_type(tokenizer.size - 1).newbyteorder("<").str


def text_of_rows(
    components: Sequence[Component], tokenizers: Tokenizers, max_length: int
) -> Iterator[tuple[str, str]]:
    """Source and target text of each row that `write_corpus` writes."""
    for component in components:
        pairs = numbered(component.text.pairs(), component.text.first_line)
        marked = tokenizers_of(component, tokenizers)
        for chunk in encoded_chunks(pairs, marked, max_length):
            yield from ((kept.pair.source, kept.pair.target) for kept in chunk.kept)


def numbered(pairs: Iterable[tuple[str, str]], first: int) -> Iterator[NumberedPair]:
    """Pairs with the numbers of their lines, from `first`."""
    return (NumberedPair(line, *pair) for line, pair in enumerate(pairs, start=first))


def tokenizers_of(component: Component, tokenizers: Tokenizers) -> Tokenizers:
    """With the component's tag, if it has one."""
    if component.tag is None:
        return tokenizers
    return tokenizers._replace(source=tokenizers.source.with_tag(component.tag))


def encode_block(pairs: Iterable[NumberedPair], tokenizers: Tokenizers, max_length: int) -> Block:
    """Encode some pairs of a component with its tokenizers."""
    chunks = list(encoded_chunks(pairs, tokenizers, max_length))
    kept = [each for chunk in chunks for each in chunk.kept]
    arrays: list[np.ndarray] = []
    for tokenizer, rows in zip(
        tokenizers, ([k.source for k in kept], [k.target for k in kept]), strict=True
    ):
        arrays.append(np.fromiter(chain.from_iterable(rows), kind_of(tokenizer)))
        arrays.append(np.array([len(row) for row in rows], "<i4"))
    hashes = np.array([hash_of(each.pair) for each in kept], "<u8")
    left_out = [n for c in chunks for n in c.empty], [n for c in chunks for n in c.long]
    return Block._make([*arrays, hashes, *(np.array(each, "<i8") for each in left_out)])


def encoded_chunks(
    pairs: Iterable[NumberedPair], tokenizers: Tokenizers, max_length: int
) -> Iterator[Chunk]:
    """The pairs, chunk by chunk."""
    for chunk in windows(pairs, CHUNK_LINES, character_count, CHUNK_CHARACTERS):
        full = [pair for pair in chunk if is_full(pair.source, pair.target)]
        sources = tokenizers.source.encode_batch([pair.source for pair in full])
        targets = tokenizers.target.encode_batch([pair.target for pair in full])
        kept, long = [], []
        for each in map(EncodedPair, full, sources, targets):
            if is_kept(len(each.source), len(each.target), max_length):
                kept.append(each)
            else:
                long.append(each.pair.line)
        empty = [pair.line for pair in chunk if not is_full(pair.source, pair.target)]
        yield Chunk(kept, empty, long)


def character_count(pair: NumberedPair) -> int:
    return len(pair.source) + len(pair.target)


def is_full(source: str, target: str) -> bool:
    """Does a pair have text on both sides? If not, the corpus leaves it out."""
    return bool(source.strip() and target.strip())


def is_kept(source: int, target: int, max_length: int) -> bool:
    """Is a pair with these numbers of pieces kept? Tags are counted, EOS is not."""
    # A row of exactly `max_length` pieces is too long: EOS is one more.
    return max(source, target) < max_length


def hash_of(pair: NumberedPair) -> int:
    """A 64-bit hash of a pair's text: 10 million pairs collide with probability 1 / 370,000."""
    # The length tells "ab", "c" and "a", "bc" apart.
    text = f"{len(pair.source)} {pair.source}{pair.target}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def sort_hashes(path: Path) -> int:
    """Sort a file of hashes in place. Returns: how many repeat an earlier one."""
    if path.stat().st_size == 0:
        return 0
    hashes = np.memmap(path, "<u8", "r+")
    hashes.sort()
    hashes.flush()
    return int(np.count_nonzero(hashes[1:] == hashes[:-1]))

"""Write a corpus: encode text in chunks into files of piece ids, in constant memory."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.data.encoding_stats import EncodingStats, Report
from seq2seq.data.mixture import Component
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.data.windows import windows

# Text is encoded in chunks; both limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
SIDES = ("source", "target")
FILES = {"ids": "<i4", "offsets": "<i8", "lengths": "<i4"}  # of each side, as in `corpus.Side`


class NumberedPair(NamedTuple):
    line: int
    source: str
    target: str


class EncodedPair(NamedTuple):
    """A pair that is kept, and the ids of both sides."""

    pair: NumberedPair
    source: list[int]
    target: list[int]


class SideWriter:
    """Appends rows of ids to the three files of one side, which `files` closes."""

    def __init__(self, files: ExitStack, folder: Path, side: str):
        self._ids, self._offsets, self._lengths = (
            files.enter_context((folder / f"{side}.{name}").open("wb")) for name in FILES
        )
        self._pieces = 0
        np.zeros(1, "<i8").tofile(self._offsets)

    def append(self, rows: list[list[int]]) -> None:
        lengths = np.array([len(row) for row in rows], "<i4")
        ends = np.cumsum(lengths, dtype="<i8") + self._pieces
        np.fromiter(chain.from_iterable(rows), "<i4").tofile(self._ids)
        ends.tofile(self._offsets)
        lengths.tofile(self._lengths)
        self._pieces += int(lengths.sum())


def write_corpus(
    folder: Path, components: Sequence[Component], tokenizers: Tokenizers, max_length: int
) -> list[EncodingStats]:
    """Encode the components one after another into the files of a corpus, and write its report.

    Returns: the statistics of each component.
    Raises: DataError for a faulty file.
    """
    all_stats = [EncodingStats(Report(0, 0, max_length)) for _ in components]
    with ExitStack() as files:
        hashes = files.enter_context((folder / "hashes").open("wb"))
        sources, targets = (SideWriter(files, folder, side) for side in SIDES)
        for component, stats in zip(components, all_stats, strict=True):
            for chunk in encoded_chunks(component, tokenizers, stats):
                sources.append([kept.source for kept in chunk])
                targets.append([kept.target for kept in chunk])
                np.array([hash_of(kept.pair) for kept in chunk], "<u8").tofile(hashes)
    note = {
        "accounts": [asdict(stats) for stats in all_stats],
        "duplicates": sort_hashes(folder / "hashes"),
    }
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return all_stats


def kept_text(
    components: Sequence[Component], tokenizers: Tokenizers, max_length: int
) -> Iterator[tuple[str, str]]:
    """Source and target text of each row that `write_corpus` writes."""
    for component in components:
        for chunk in encoded_chunks(component, tokenizers, EncodingStats(Report(0, 0, max_length))):
            yield from ((kept.pair.source, kept.pair.target) for kept in chunk)


def encoded_chunks(
    component: Component, tokenizers: Tokenizers, stats: EncodingStats
) -> Iterator[list[EncodedPair]]:
    """The pairs that are kept, chunk by chunk; `stats` counts all pairs."""
    source, target = tokenizers
    if component.tag is not None:
        source = source.marked(component.tag)
    lines = enumerate(component.text.pairs(), start=component.text.first_line)
    pairs = (NumberedPair(line, *pair) for line, pair in lines)
    for chunk in windows(pairs, CHUNK_LINES, character_count, CHUNK_CHARACTERS):
        full = [pair for pair in chunk if is_full(pair.source, pair.target)]
        sources = source.encode_batch([pair.source for pair in full])
        targets = target.encode_batch([pair.target for pair in full])
        kept, long = [], []
        for each in map(EncodedPair, full, sources, targets):
            if is_kept(len(each.source), len(each.target), stats.report.max_length):
                kept.append(each)
            else:
                long.append(each.pair.line)
        empty = [pair.line for pair in chunk if not is_full(pair.source, pair.target)]
        stats.report.count(len(kept), empty, long)
        stats.source.count([each.source for each in kept])
        stats.target.count([each.target for each in kept])
        yield kept


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

"""Write a corpus: encode text in chunks into files of piece ids, in constant memory."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, compress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from seq2seq.data.encoding_stats import EncodingStats, Pieces, Report
from seq2seq.data.formats import TextFormat
from seq2seq.data.mixture import Component
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.symbols import UNK

# Text is encoded in chunks; both limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
LINES_KEPT = 100
SIDES = ("source", "target")


class _Pair(NamedTuple):
    line: int
    source: str
    target: str


# Pairs, and the ids of both sides of each.
_Encoded = tuple[list[_Pair], list[tuple[list[int], list[int]]]]


def _chunks(text: TextFormat) -> Iterator[list[_Pair]]:
    chunk: list[_Pair] = []
    characters = 0
    for line, pair in enumerate(text.pairs(), start=text.first_line):
        chunk.append(_Pair(line, *pair))
        characters += len(pair[0]) + len(pair[1])
        if len(chunk) == CHUNK_LINES or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class _SideWriter:
    """Appends rows of ids to the three files of one side."""

    def __init__(self, folder: Path, side: str):
        self._ids = (folder / f"{side}.ids").open("wb")
        self._offsets = (folder / f"{side}.offsets").open("wb")
        self._lengths = (folder / f"{side}.lengths").open("wb")
        self._pieces = 0
        np.zeros(1, "<i8").tofile(self._offsets)

    def append(self, rows: list[list[int]]) -> None:
        lengths = np.array([len(row) for row in rows], "<i4")
        ends = np.cumsum(lengths, dtype="<i8") + self._pieces
        np.fromiter(chain.from_iterable(rows), "<i4").tofile(self._ids)
        ends.tofile(self._offsets)
        lengths.tofile(self._lengths)
        self._pieces += int(lengths.sum())

    def __enter__(self) -> "_SideWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None
    ) -> None:
        for file in (self._ids, self._offsets, self._lengths):
            file.close()


@dataclass
class _LeftOut:
    count: int = 0
    first: tuple[int, ...] = ()

    def add(self, lines: list[int]) -> None:
        self.count += len(lines)
        self.first += tuple(lines[: LINES_KEPT - len(self.first)])


@dataclass
class _Tally:
    """The `EncodingStats` of a component while they are counted."""

    max_length: int
    read: int = 0
    kept: int = 0
    empty: _LeftOut = field(default_factory=_LeftOut)
    long: _LeftOut = field(default_factory=_LeftOut)
    lengths: tuple[Counter[int], Counter[int]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    unknown: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, side: int, rows: list[list[int]]) -> None:
        self.lengths[side].update(len(row) for row in rows)
        self.unknown[side] += sum(row.count(UNK) for row in rows)

    def stats(self) -> EncodingStats:
        sides = [
            Pieces(tuple(counts[n] for n in range(max(counts, default=-1) + 1)), unknown)
            for counts, unknown in zip(self.lengths, self.unknown, strict=True)
        ]
        empty, long = self.empty, self.long
        report = Report(
            read=self.read,
            kept=self.kept,
            max_length=self.max_length,
            empty=empty.count,
            long=long.count,
            empty_lines=empty.first,
            long_lines=long.first,
        )
        return EncodingStats(report, *sides)


def write_corpus(
    folder: Path, components: Sequence[Component], tokenizers: Tokenizers, max_length: int
) -> list[EncodingStats]:
    """Encode the components one after another into the files of a corpus, and write its report.

    Returns: the statistics of each component.
    Raises: DataError for a faulty file.
    """
    with (
        _SideWriter(folder, "source") as sources,
        _SideWriter(folder, "target") as targets,
        (folder / "hashes").open("wb") as hashes,
    ):
        all_stats = []
        for component in components:
            tally = _Tally(max_length)
            for kept, rows in _encoded(component, tokenizers, tally):
                sources.append([source for source, _ in rows])
                targets.append([target for _, target in rows])
                np.array([_hash(pair) for pair in kept], "<u8").tofile(hashes)
            all_stats.append(tally.stats())
    note = {
        "accounts": [asdict(stats) for stats in all_stats],
        "duplicates": _sort_hashes(folder / "hashes"),
    }
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return all_stats


def kept_text(
    components: Sequence[Component], tokenizers: Tokenizers, max_length: int
) -> Iterator[tuple[str, str]]:
    """Source and target text of each row that `write_corpus` writes."""
    for component in components:
        for kept, _ in _encoded(component, tokenizers, _Tally(max_length)):
            yield from ((pair.source, pair.target) for pair in kept)


def _encoded(component: Component, tokenizers: Tokenizers, tally: _Tally) -> Iterator[_Encoded]:
    marked = tokenizers
    if component.tag is not None:
        marked = tokenizers._replace(source=tokenizers.source.marked(component.tag))
    for chunk in _chunks(component.text):
        yield _encode(chunk, marked, tally)


def _encode(chunk: list[_Pair], tokenizers: Tokenizers, tally: _Tally) -> _Encoded:
    """The pairs of a chunk that are kept, and the ids of each; `tally` counts all pairs."""
    full = [pair for pair in chunk if is_full(pair.source, pair.target)]
    source_ids = tokenizers.source.encode_batch([pair.source for pair in full])
    target_ids = tokenizers.target.encode_batch([pair.target for pair in full])
    pairs = list(zip(source_ids, target_ids, strict=True))
    fits = [is_kept(len(source), len(target), tally.max_length) for source, target in pairs]
    kept = list(compress(pairs, fits))
    tally.read += len(chunk)
    tally.kept += len(kept)
    seen = {pair.line for pair in full}
    tally.empty.add([pair.line for pair in chunk if pair.line not in seen])
    tally.long.add([pair.line for pair, fit in zip(full, fits, strict=True) if not fit])
    tally.add(0, [source for source, _ in kept])
    tally.add(1, [target for _, target in kept])
    return list(compress(full, fits)), kept


def is_full(source: str, target: str) -> bool:
    """Does a pair have text on both sides? If not, the corpus leaves it out."""
    return bool(source.strip() and target.strip())


def is_kept(source: int, target: int, max_length: int) -> bool:
    """Is a pair with these numbers of pieces kept? Tags are counted, EOS is not."""
    # A row of exactly `max_length` pieces is too long: EOS is one more.
    return max(source, target) < max_length


def _hash(pair: _Pair) -> int:
    """A 64-bit hash of a pair's text: 10 million pairs collide with probability 1 / 370,000."""
    # The length tells "ab", "c" and "a", "bc" apart.
    text = f"{len(pair.source)} {pair.source}{pair.target}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _sort_hashes(path: Path) -> int:
    """Sort a file of hashes in place. Returns: how many repeat an earlier one."""
    if path.stat().st_size == 0:
        return 0
    hashes = np.memmap(path, "<u8", "r+")
    hashes.sort()
    hashes.flush()
    return int(np.count_nonzero(hashes[1:] == hashes[:-1]))

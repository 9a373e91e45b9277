"""A parallel corpus as piece ids on disk: encoded once, then mapped into memory, never loaded."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, compress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import tokenizers as library

from seq2seq.data.cache import cached_folder, digest
from seq2seq.data.text import check_parallel, read_lines
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.errors import DataError

# Part of every cache's name: raise it when the files below change their meaning.
FORMAT = "1"
# A chunk of text is encoded at a time; both limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
LINES_SHOWN = 5
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets")


@dataclass(frozen=True)
class Report:
    """How many pairs of a corpus were kept, and which were not.

    Attributes:
        read: pairs in the files.
        kept: pairs in the corpus.
        empty: pairs left out because a side is empty or white space.
        max_length: most pieces of a sentence, its end symbol included.
        long: pairs left out because a side has more than that.
        empty_lines: the first line numbers of the empty ones.
        long_lines: the first line numbers of the long ones.
    """

    read: int
    kept: int
    max_length: int
    empty: int = 0
    long: int = 0
    empty_lines: tuple[int, ...] = ()
    long_lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        reasons = (
            (self.empty, "with an empty side", self.empty_lines),
            (self.long, f"longer than {self.max_length} pieces", self.long_lines),
        )
        left_out = [f"{n:,} {why} ({_name_lines(n, lines)})" for n, why, lines in reasons if n]
        pairs = "pair" if self.read == 1 else "pairs"
        sentence = f"{self.read:,} {pairs} read, {self.kept:,} kept"
        return f"{sentence}; left out: {', '.join(left_out)}" if left_out else sentence


def _name_lines(count: int, first: tuple[int, ...]) -> str:
    shown = ", ".join(str(line) for line in first) + (", ..." if count > len(first) else "")
    return f"line {shown}" if count == 1 else f"lines {shown}"


class Side(NamedTuple):
    """One language: the ids of all rows end to end, and where each row begins.

    Row i is `ids[offsets[i] : offsets[i + 1]]`, so there is one offset more than there are rows.
    """

    ids: np.ndarray
    offsets: np.ndarray

    def row(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets).astype(np.int32)


class Corpus:
    """Pairs of rows of ids, without begin and end symbols.

    Attributes:
        source_lengths: (rows,) int32, pieces of each source, the end symbol not counted.
        target_lengths: (rows,) int32, likewise.
        report: what was kept of the files.
    """

    def __init__(self, source: Side, target: Side, report: Report):
        self._source, self._target = source, target
        self.source_lengths = source.lengths
        self.target_lengths = target.lengths
        self.report = report

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """The ids of a source sentence, int32, read-only."""
        return self._source.row(index)

    def target(self, index: int) -> np.ndarray:
        """The ids of a target sentence, int32, read-only."""
        return self._target.row(index)


def encode_corpus(
    source: Path, target: Path, tokenizers: Tokenizers, *, max_length: int, cache_dir: Path
) -> Corpus:
    """Encode two aligned files, or find them encoded already.

    Pairs with an empty side, and pairs with a side of more than `max_length` pieces (the end symbol
    counted), are left out; the corpus's report counts them.

    Args:
        source: file of source sentences, one a line.
        target: file of their translations, line by line.
        tokenizers: one for each side.
        max_length: most pieces of a sentence, its end symbol included.
        cache_dir: folder of encoded corpora. The name in it is a hash of all that the result
            depends on, so a change of a file or of a tokenizer is never overlooked.

    Raises: DataError if the files cannot be read or do not match, or if no pair is left.
    """
    descriptions = [tokenizer.to_json() for tokenizer in tokenizers]
    settings = [FORMAT, library.__version__, str(max_length), *descriptions]

    def write(folder: Path) -> None:
        check_parallel(source, target)
        report = _write(folder, _chunks(source, target), tokenizers, max_length)
        if report.kept == 0:
            raise DataError(
                f"no pair of {source} and {target} can be used: {report}. "
                "A larger data.max_length keeps longer sentences."
            )

    name = f"corpus-{digest(settings, (source, target))}"
    return _load(cached_folder(cache_dir, name, _is_whole, write))


class _Pair(NamedTuple):
    line: int
    source: str
    target: str


def _chunks(source: Path, target: Path) -> Iterator[list[_Pair]]:
    chunk: list[_Pair] = []
    characters = 0
    pairs = zip(read_lines(source), read_lines(target), strict=True)
    for line, pair in enumerate(pairs, start=1):
        chunk.append(_Pair(line, *pair))
        characters += len(pair[0]) + len(pair[1])
        if len(chunk) == CHUNK_LINES or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class _SideWriter:
    """Appends rows of ids to the two files of one side."""

    def __init__(self, folder: Path, side: str):
        self._ids = (folder / f"{side}.ids").open("wb")
        self._offsets = (folder / f"{side}.offsets").open("wb")
        self.pieces = 0
        np.zeros(1, "<i8").tofile(self._offsets)

    def append(self, rows: list[list[int]]) -> None:
        ends = np.cumsum([len(row) for row in rows], dtype="<i8") + self.pieces
        np.fromiter(chain.from_iterable(rows), "<i4").tofile(self._ids)
        ends.tofile(self._offsets)
        self.pieces += sum(len(row) for row in rows)

    def __enter__(self) -> "_SideWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None
    ) -> None:
        self._ids.close()
        self._offsets.close()


@dataclass
class _LeftOut:
    count: int = 0
    first: tuple[int, ...] = ()

    def add(self, lines: list[int]) -> None:
        self.count += len(lines)
        self.first += tuple(lines[: LINES_SHOWN - len(self.first)])


def _write(
    folder: Path, chunks: Iterator[list[_Pair]], tokenizers: Tokenizers, max_length: int
) -> Report:
    """Encode the text chunk by chunk into the files of a corpus."""
    read = kept = 0
    empty, long = _LeftOut(), _LeftOut()
    with _SideWriter(folder, "source") as sources, _SideWriter(folder, "target") as targets:
        for chunk in chunks:
            full = [pair for pair in chunk if pair.source.strip() and pair.target.strip()]
            source_ids = tokenizers.source.encode_batch([pair.source for pair in full])
            target_ids = tokenizers.target.encode_batch([pair.target for pair in full])
            pairs = list(zip(source_ids, target_ids, strict=True))
            # A row of exactly `max_length` pieces is too long: its end symbol is one more.
            fits = [max(len(source), len(target)) < max_length for source, target in pairs]
            sources.append([source for source, _ in compress(pairs, fits)])
            targets.append([target for _, target in compress(pairs, fits)])
            read += len(chunk)
            kept += sum(fits)
            seen = {pair.line for pair in full}
            empty.add([pair.line for pair in chunk if pair.line not in seen])
            long.add([pair.line for pair, fit in zip(full, fits, strict=True) if not fit])
    report = Report(read, kept, max_length, empty.count, long.count, empty.first, long.first)
    sizes = {name: (folder / name).stat().st_size for name in FILES}
    note = {"report": asdict(report), "bytes": sizes}
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return report


def _read_report(folder: Path) -> Report | None:
    """The report of an encoded corpus, or None if the folder does not hold all of one."""
    try:
        note = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        sizes = {name: (folder / name).stat().st_size for name in FILES}
        if note["bytes"] != sizes:
            return None
        fields = note["report"]
        for name in ("empty_lines", "long_lines"):
            fields[name] = tuple(fields[name])
        return Report(**fields)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _is_whole(folder: Path) -> bool:
    return _read_report(folder) is not None


def _load(folder: Path) -> Corpus:
    report = _read_report(folder)
    assert report is not None
    sides = []
    for side in ("source", "target"):
        # As plain arrays: slicing a memmap object costs ten times more than slicing its memory.
        ids = np.asarray(np.memmap(folder / f"{side}.ids", "<i4", "r"))
        offsets = np.asarray(np.memmap(folder / f"{side}.offsets", "<i8", "r"))
        sides.append(Side(ids, offsets))
    return Corpus(sides[0], sides[1], report)

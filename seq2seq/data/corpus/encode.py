"""Encode text: pairs into blocks of piece ids, and blocks into the files of a corpus. Which pairs
are left out, and statistics: pairs kept and left out, lengths, unknown pieces.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq.base.errors import format_count
from seq2seq.base.symbols import UNK
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.corpus.ragged_array import RaggedWriter
from seq2seq.data.text.formats import Pair, hash_pair
from seq2seq.data.text.windows import windows
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers

KEPT, EMPTY, LONG = range(3)  # the outcomes of a pair
# Text is encoded in chunks; both limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
SIDES = ("source", "target")
LINES_KEPT, LINES_SHOWN = 100, 5  # of the pairs left out for one reason


@dataclass
class LeftOut:
    """The pairs left out for one reason: how many, and the line numbers of the first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, lines: list[int]) -> None:
        self.count += len(lines)
        self.lines += lines[: LINES_KEPT - len(self.lines)]

    def __str__(self) -> str:
        shown = ", ".join(str(line) for line in self.lines[:LINES_SHOWN])
        more = ", ..." if self.count > LINES_SHOWN else ""
        return f"line {shown}" if self.count == 1 else f"lines {shown}{more}"


@dataclass
class PieceStats:
    """The pieces of one side.

    Attributes:
        lengths: how many sentences have 0, 1, 2, ... pieces, EOS not counted.
        unknown: pieces that are not in the vocabulary.
    """

    lengths: list[int] = field(default_factory=list)
    unknown: int = 0

    def count(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Count more rows of ids, end to end."""
        more = np.bincount(lengths, minlength=len(self.lengths)) if len(lengths) else ()
        pairs = zip_longest(self.lengths, map(int, more), fillvalue=0)
        self.lengths = [known + new for known, new in pairs]
        self.unknown += int(np.count_nonzero(ids == UNK))

    @property
    def total(self) -> int:
        return sum(length * count for length, count in enumerate(self.lengths))

    @property
    def unknown_rate(self) -> float:
        """Between 0 and 1."""
        return self.unknown / max(self.total, 1)


@dataclass
class EncodingStats:
    """The statistics of one component: its pairs, and the pieces of both sides.

    Attributes:
        max_length: maximum pieces of a sentence, EOS included.
        kept: pairs in the corpus.
        empty: pairs left out because a side is empty or white space.
        long: pairs left out because a side has more than `max_length` pieces.
    """

    max_length: int
    kept: int = 0
    empty: LeftOut = field(default_factory=LeftOut)
    long: LeftOut = field(default_factory=LeftOut)
    source: PieceStats = field(default_factory=PieceStats)
    target: PieceStats = field(default_factory=PieceStats)

    @property
    def read(self) -> int:
        """Pairs in the files."""
        return self.kept + self.empty.count + self.long.count

    def count_pairs(self, outcomes: np.ndarray, first_line: int) -> None:
        """Count more pairs.

        Args:
            outcomes: (pairs,) KEPT, EMPTY or LONG.
            first_line: of the file, that of its first pair.
        """
        line = first_line + self.read
        self.kept += int(np.count_nonzero(outcomes == KEPT))
        for outcome, left_out in ((EMPTY, self.empty), (LONG, self.long)):
            left_out.add((np.flatnonzero(outcomes == outcome) + line).tolist())

    def __str__(self) -> str:
        reasons = {
            "with an empty side": self.empty,
            f"longer than {self.max_length} pieces": self.long,
        }
        left_out = [f"{each.count:,} {why} ({each})" for why, each in reasons.items() if each.count]
        sentence = f"{format_count(self.read, 'pair')} read, {self.kept:,} kept"
        return f"{sentence}; left out: {', '.join(left_out)}" if left_out else sentence

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "EncodingStats":
        """The inverse of `dataclasses.asdict`.

        Raises: LookupError or TypeError for other values.
        """
        parts = {"empty": LeftOut, "long": LeftOut, "source": PieceStats, "target": PieceStats}
        return cls(**{**values, **{name: part(**values[name]) for name, part in parts.items()}})


def judge_pair(pair: Pair, pieces: int, max_length: int) -> int:
    """KEPT, EMPTY or LONG; `pieces` are those of the longer side, its tag counted, EOS not."""
    if not (pair[0].strip() and pair[1].strip()):
        return EMPTY
    # A row of exactly `max_length` pieces is too long: EOS is one more.
    return KEPT if pieces < max_length else LONG


class Block(NamedTuple):
    """Encoded pairs as arrays: of those that are kept the ids end to end, their lengths, and
    hashes; of all pairs what became of them: KEPT, EMPTY or LONG.
    """

    source: np.ndarray
    source_lengths: np.ndarray
    target: np.ndarray
    target_lengths: np.ndarray
    hashes: np.ndarray
    outcomes: np.ndarray


def encode_block(pairs: Iterable[Pair], tokenizers: Tokenizers, max_length: int) -> Block:
    """Encode some pairs of a component with its tokenizers."""
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    hashes, outcomes = [], []
    for chunk in windows(pairs, CHUNK_LINES, count_characters, CHUNK_CHARACTERS):
        of_sources = tokenizers.source.encode_batch([source for source, _ in chunk])
        of_targets = tokenizers.target.encode_batch([target for _, target in chunk])
        for pair, source, target in zip(chunk, of_sources, of_targets, strict=True):
            outcomes.append(judge_pair(pair, max(len(source), len(target)), max_length))
            if outcomes[-1] == KEPT:
                sources.append(source)
                targets.append(target)
                hashes.append(hash_pair(*pair))
    return Block(
        *join_rows(sources, tokenizers.source),
        *join_rows(targets, tokenizers.target),
        np.array(hashes, "<u8"),
        np.array(outcomes, np.uint8),
    )


def count_characters(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1])


def join_rows(rows: Sequence[list[int]], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """The ids of rows end to end, and the length of each row."""
    ids = np.fromiter(chain.from_iterable(rows), smallest_type(tokenizer))
    return ids, np.array([len(row) for row in rows], "<i4")


def smallest_type(tokenizer: Tokenizer) -> str:
    """The smallest type that holds all ids of a tokenizer, such as `<u2`."""
    return np.min_scalar_type(tokenizer.size - 1).newbyteorder("<").str


def write_corpus(
    folder: Path,
    components: Sequence[Component],
    blocks: Iterable[Iterable[Block]],
    tokenizers: Tokenizers,
    max_length: int,
) -> list[EncodingStats]:
    """Write the files of a corpus, block by block.

    Args:
        blocks: of each component.

    Returns: the statistics of each component.
    Raises: DataError for a faulty file.
    """
    all_stats = [EncodingStats(max_length) for _ in components]
    with ExitStack() as files:
        hashes = files.enter_context((folder / "hashes").open("wb"))
        outcomes = files.enter_context((folder / "outcomes").open("wb"))
        sources, targets = (RaggedWriter(files, folder, side) for side in SIDES)
        for component, stats, of_component in zip(components, all_stats, blocks, strict=True):
            for block in of_component:
                sources.append(block.source, block.source_lengths)
                targets.append(block.target, block.target_lengths)
                block.hashes.tofile(hashes)
                block.outcomes.tofile(outcomes)
                stats.count_pairs(block.outcomes, component.text.first_line)
                stats.source.count(block.source, block.source_lengths)
                stats.target.count(block.target, block.target_lengths)
    note = {
        "stats": [asdict(stats) for stats in all_stats],
        "duplicates": sort_hashes(folder / "hashes"),
        "types": [smallest_type(tokenizer) for tokenizer in tokenizers],
    }
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return all_stats


def sort_hashes(path: Path) -> int:
    """Sort a file of hashes in place. Returns: how many repeat an earlier one."""
    if path.stat().st_size == 0:
        return 0
    hashes = np.memmap(path, "<u8", "r+")
    hashes.sort()
    hashes.flush()
    return int(np.count_nonzero(hashes[1:] == hashes[:-1]))

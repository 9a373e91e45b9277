"""Statistics of an encoded text: pairs kept and left out, lengths, unknown pieces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from seq2seq.symbols import UNK

LINES_KEPT = 100
LINES_SHOWN = 5


@dataclass
class Report:
    """How many pairs of a corpus were kept, and which were left out.

    Attributes:
        read: pairs in the files.
        kept: pairs in the corpus.
        max_length: maximum pieces of a sentence, EOS included.
        empty: pairs left out because a side is empty or white space.
        long: pairs left out because a side has more than `max_length` pieces.
        empty_lines: line numbers of the first empty pairs.
        long_lines: line numbers of the first long pairs.
    """

    read: int
    kept: int
    max_length: int
    empty: int = 0
    long: int = 0
    empty_lines: list[int] = field(default_factory=list)
    long_lines: list[int] = field(default_factory=list)

    def count(self, kept: int, empty: list[int], long: list[int]) -> None:
        """Count more pairs: those kept, and the lines of those left out."""
        self.read += kept + len(empty) + len(long)
        self.kept += kept
        self.empty += len(empty)
        self.long += len(long)
        self.empty_lines += empty[: LINES_KEPT - len(self.empty_lines)]
        self.long_lines += long[: LINES_KEPT - len(self.long_lines)]

    def __str__(self) -> str:
        reasons = (
            (self.empty, "with an empty side", self.empty_lines),
            (self.long, f"longer than {self.max_length} pieces", self.long_lines),
        )
        left_out = [f"{n:,} {why} ({name_lines(n, lines)})" for n, why, lines in reasons if n]
        pairs = "pair" if self.read == 1 else "pairs"
        sentence = f"{self.read:,} {pairs} read, {self.kept:,} kept"
        return f"{sentence}; left out: {', '.join(left_out)}" if left_out else sentence


def name_lines(count: int, first: list[int]) -> str:
    shown = ", ".join(str(line) for line in first[:LINES_SHOWN])
    more = ", ..." if count > LINES_SHOWN else ""
    return f"line {shown}" if count == 1 else f"lines {shown}{more}"


@dataclass
class Pieces:
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
    """The statistics of one component: its pairs, and the pieces of both sides."""

    report: Report
    source: Pieces = field(default_factory=Pieces)
    target: Pieces = field(default_factory=Pieces)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "EncodingStats":
        """The inverse of `dataclasses.asdict`.

        Raises: LookupError or TypeError for other values.
        """
        source, target = (Pieces(**values[side]) for side in ("source", "target"))
        return cls(Report(**values["report"]), source, target)

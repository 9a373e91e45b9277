"""Which pairs are left out of a corpus, and statistics of an encoded text: pairs kept and left out,
lengths, unknown pieces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from seq2seq.data.formats import Pair
from seq2seq.errors import format_count
from seq2seq.symbols import UNK

KEPT, EMPTY, LONG = range(3)  # the outcomes of a pair
LINES_KEPT = 100
LINES_SHOWN = 5


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

"""Statistics of an encoded text: pairs kept and left out, lengths, unknown pieces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LINES_SHOWN = 5


@dataclass(frozen=True)
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
    shown = ", ".join(str(line) for line in first[:LINES_SHOWN])
    more = ", ..." if count > LINES_SHOWN else ""
    return f"line {shown}" if count == 1 else f"lines {shown}{more}"


@dataclass(frozen=True)
class Pieces:
    """The pieces of one side.

    Attributes:
        lengths: how many sentences have 0, 1, 2, ... pieces, EOS not counted.
        unknown: pieces that are not in the vocabulary.
    """

    lengths: tuple[int, ...]
    unknown: int

    @property
    def total(self) -> int:
        return sum(length * count for length, count in enumerate(self.lengths))

    @property
    def unknown_rate(self) -> float:
        """Between 0 and 1."""
        return self.unknown / max(self.total, 1)


@dataclass(frozen=True)
class EncodingStats:
    """The statistics of one component: its pairs, and the pieces of both sides."""

    report: Report
    source: Pieces
    target: Pieces

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "EncodingStats":
        """The inverse of `dataclasses.asdict`, after a round trip through JSON.

        Raises: LookupError or TypeError for other values.
        """
        report = dict(values["report"])
        for name in ("empty_lines", "long_lines"):
            report[name] = tuple(report[name])
        sides = [
            Pieces(tuple(values[side]["lengths"]), values[side]["unknown"])
            for side in ("source", "target")
        ]
        return cls(Report(**report), *sides)

"""What became of a text when it was encoded: pairs kept and left out, lengths, unknown pieces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LINES_SHOWN = 5


@dataclass(frozen=True)
class Report:
    """How many pairs of a corpus were kept, and which were not.

    Attributes:
        read: pairs in the files.
        kept: pairs in the corpus.
        max_length: most pieces of a sentence, its end symbol included.
        empty: pairs left out because a side is empty or white space.
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
    shown = ", ".join(str(line) for line in first[:LINES_SHOWN])
    more = ", ..." if count > LINES_SHOWN else ""
    return f"line {shown}" if count == 1 else f"lines {shown}{more}"


@dataclass(frozen=True)
class Pieces:
    """The pieces of one side.

    Attributes:
        lengths: how many sentences have 0, 1, 2, ... pieces, the end symbol not counted.
        unknown: pieces that the vocabulary lacks.
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
    """What became of one portion's text, and what both sides of it are made of."""

    report: Report
    source: Pieces
    target: Pieces

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "EncodingStats":
        """What `dataclasses.asdict` and JSON made of one, again.

        Raises: LookupError or TypeError if they are not those values.
        """
        report = dict(values["report"])
        for name in ("empty_lines", "long_lines"):
            report[name] = tuple(report[name])
        sides = [
            Pieces(tuple(values[side]["lengths"]), values[side]["unknown"])
            for side in ("source", "target")
        ]
        return cls(Report(**report), *sides)

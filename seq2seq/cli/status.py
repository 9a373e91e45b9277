"""The progress of a translation, on stderr."""

import math
import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from seq2seq.base.errors import format_count
from seq2seq.base.progress import Tally, show_tally

T = TypeVar("T")


class Input(Protocol):
    """A source of texts: its size in bytes, if known, and the bytes read so far."""

    bytes: int

    @property
    def size(self) -> int | None: ...


@dataclass
class ResultTally(Tally):
    """Counts results, and knows the share of the input that was read for them."""

    texts: Input | None = None
    soon: ClassVar[float] = math.inf

    @property
    def share(self) -> float | None:
        return self.texts.bytes / self.texts.size if self.texts and self.texts.size else None

    def __str__(self) -> str:
        share = "" if self.share is None else f", {self.share:.0%} read"
        return f"{format_count(self.done, self.unit)}, {self.rate:,.1f}/s{share}"


def with_progress(
    results: Iterable[T], texts: Input | None, unit: str = "line"
) -> Generator[T, None, None]:
    """Pass results on, and show how many there are so far; if `texts` is None, show nothing."""
    tally = ResultTally("translating", unit, texts=texts)
    with show_tally(tally, None if texts is None else sys.stderr):
        yield from tally.count(results)

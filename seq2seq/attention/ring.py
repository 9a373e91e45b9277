"""What attention to the neighbourhood remembers: the last tokens, and perhaps the first."""

from typing import NamedTuple, Self

import torch
from torch import Tensor


class Stretch(NamedTuple):
    """What is remembered of tokens at positions start, start + 1, ..."""

    streams: dict[str, Tensor]  # (N, S, heads, width)
    mask: Tensor | None  # (N, S), True = real; None = all are real
    start: int


class RingMemory:
    """The last `size` tokens of every row, and the first `first`; what lies between is forgotten.

    All rows have the same length. There is no slot that nobody has written: until `size` tokens
    have come, fewer are held. A token among the first may be among the last too.

    The storage is head-major, as in `DenseMemory`. Nothing is written in place.

    Attributes:
        length: tokens that ever came.
    """

    def __init__(self, size: int, first: int = 0) -> None:
        self.size = size
        self.first = first
        self.length = 0
        self._last: dict[str, Tensor] = {}  # (N, heads, at most size, width)
        self._first: dict[str, Tensor] = {}  # (N, heads, at most first, width)
        self._mask: Tensor | None = None

    @classmethod
    def of(cls, streams: dict[str, Tensor], mask: Tensor | None, first: int = 0) -> Self:
        """A whole sequence, of which nothing is forgotten: streams (N, S, heads, width), mask
        (N, S).
        """
        memory = cls(next(iter(streams.values())).shape[1], first)
        memory.length = memory.size
        memory._last = {name: x.transpose(1, 2) for name, x in streams.items()}
        memory._first = {name: x[:, :, :first] for name, x in memory._last.items()}
        memory._mask = mask
        return memory

    @property
    def rows(self) -> int:
        return next(iter(self._last.values())).shape[0]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for part in (self._last, self._first) for x in part.values())

    def append(self, streams: dict[str, Tensor]) -> Self:
        """Add n tokens to every row, each stream (N, n, heads, width); n may be above the size.

        Returns: a memory for these n tokens to attend to: all that was remembered before them, and
        they themselves.
        """
        seen = type(self)(self.size, self.first)
        missing = max(0, self.first - self.length)
        for name, x in streams.items():
            new = x.transpose(1, 2)
            beginning = new[:, :, :missing].clone()
            if self.length:
                beginning = torch.cat((self._first[name], beginning), dim=2)
                new = torch.cat((self._last[name], new), dim=2)
            seen._last[name], seen._first[name] = new, beginning
        seen.length = self.length + next(iter(streams.values())).shape[1]
        # Copies, so that a long text that came at once is not kept alive by its end.
        self._last = {name: x[:, :, -self.size :].clone() for name, x in seen._last.items()}
        self._first = seen._first
        self.length = seen.length
        return seen

    def read(self) -> Stretch:
        """The last tokens, oldest first."""
        kept = next(iter(self._last.values())).shape[2]
        return Stretch(token_major(self._last), self._mask, self.length - kept)

    def read_first(self) -> Stretch:
        """The first tokens."""
        mask = None if self._mask is None else self._mask[:, : self.first]
        return Stretch(token_major(self._first), mask, 0)

    def fork(self, parents: Tensor) -> None:
        self.keep(parents)

    def keep(self, rows: Tensor) -> None:
        self._last = {name: x.index_select(0, rows) for name, x in self._last.items()}
        self._first = {name: x.index_select(0, rows) for name, x in self._first.items()}
        if self._mask is not None:
            self._mask = self._mask.index_select(0, rows)


def token_major(storage: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x.transpose(1, 2) for name, x in storage.items()}

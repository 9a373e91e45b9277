"""The memory of local attention: the last tokens, and optionally the first tokens."""

from typing import Self

import torch
from torch import Tensor

from seq2seq.attention.memory import Memory
from seq2seq.functional.local import Keys


class RingMemory(Memory):
    """A memory of the last `size` and the first `first` tokens of every row.

    All rows have the same length. A token can be one of the first and one of the last. Tensors are
    never changed in place.

    Attributes:
        length: number of tokens so far, including forgotten ones.
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
        """The memory of a whole sequence: streams (N, heads, S, width), mask (N, S)."""
        memory = cls(next(iter(streams.values())).shape[2], first)
        memory.length = memory.size
        memory._last = streams
        memory._first = {name: x[:, :, :first] for name, x in streams.items()}
        memory._mask = mask
        return memory

    @property
    def rows(self) -> int:
        return next(iter(self._last.values())).shape[0]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for part in (self._last, self._first) for x in part.values())

    def append(self, streams: dict[str, Tensor]) -> Self:
        """Add n tokens to every row; each stream is (N, heads, n, width), and n may exceed `size`.

        Returns: the memory that these n tokens attend to: all tokens remembered before, and the new
        tokens themselves.
        """
        seen = type(self)(self.size, self.first)
        missing = max(0, self.first - self.length)
        for name, new in streams.items():
            first, last = (held.get(name, new[:, :, :0]) for held in (self._first, self._last))
            seen._first[name] = torch.cat((first, new[:, :, :missing]), dim=2)
            seen._last[name] = torch.cat((last, new), dim=2)
        seen.length = self.length + next(iter(streams.values())).shape[2]
        # Copied, since a view of the end would keep the memory of a long text in use.
        self._last = {name: x[:, :, -self.size :].clone() for name, x in seen._last.items()}
        self._first = seen._first
        self.length = seen.length
        return seen

    def read(self, suffix: str = "") -> Keys:
        """The last tokens, oldest first, from the streams k and v plus a suffix (`k_global`)."""
        k, v = self._last["k" + suffix], self._last["v" + suffix]
        return Keys(k, v, self._mask, self.length - k.shape[2])

    def read_first(self) -> Keys:
        """The first tokens."""
        mask = None if self._mask is None else self._mask[:, : self.first]
        return Keys(self._first["k"], self._first["v"], mask)

    def keep(self, rows: Tensor) -> None:
        self._last = {name: x.index_select(0, rows) for name, x in self._last.items()}
        self._first = {name: x.index_select(0, rows) for name, x in self._first.items()}
        if self._mask is not None:
            self._mask = self._mask.index_select(0, rows)

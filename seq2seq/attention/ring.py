"""The memory of local attention: the last tokens, and optionally the first."""

from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.attention.memory import Memory


class Stretch(NamedTuple):
    """Tokens at positions start, start + 1, ... Entries below position 0 are undefined, and are to
    be masked.
    """

    streams: dict[str, Tensor]  # (N, heads, S, width)
    mask: Tensor | None  # (N, S), True = real; None = all are real
    start: int | Tensor  # (N,) where rows have different lengths


class RingMemory(Memory):
    """The last `size` tokens of every row, and the first `first`; what lies between is forgotten.

    While all rows have the same length every slot is written: until `size` tokens have come, fewer
    are held. Rows that `merge` brings together may differ; then the last tokens are aligned at the
    end, with zeros before those of shorter rows, and the first at the beginning. A token may be
    among the first and the last.

    Nothing is written in place.

    Attributes:
        length: tokens so far; (N,) where rows differ.
    """

    def __init__(self, size: int, first: int = 0) -> None:
        self.size = size
        self.first = first
        self.length: int | Tensor = 0
        self._last: dict[str, Tensor] = {}  # (N, heads, at most size, width)
        self._first: dict[str, Tensor] = {}  # (N, heads, at most first, width)
        self._mask: Tensor | None = None

    @classmethod
    def of(cls, streams: dict[str, Tensor], mask: Tensor | None, first: int = 0) -> Self:
        """A whole sequence, with nothing forgotten: streams (N, heads, S, width), mask (N, S)."""
        memory = cls(next(iter(streams.values())).shape[2], first)
        memory.length = memory.size
        memory._last = streams
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
        """Add n tokens to every row, each stream (N, heads, n, width); n may be above the size.

        Returns: the memory that these n tokens attend to: all that was remembered before them, and
        themselves.
        """
        seen = type(self)(self.size, self.first)
        for name, new in streams.items():
            seen._first[name] = self._beginning(name, new)
            seen._last[name] = torch.cat((self._last[name], new), dim=2) if self._last else new
        seen.length = self.length + next(iter(streams.values())).shape[2]
        # Copies, so that a view of its end does not keep a long text alive.
        self._last = {name: x[:, :, -self.size :].clone() for name, x in seen._last.items()}
        self._first = seen._first
        self.length = seen.length
        return seen

    def _beginning(self, name: str, new: Tensor) -> Tensor:
        """The first tokens of a stream, after new ones (N, heads, n, width)."""
        if isinstance(self.length, int):
            new = new[:, :, : max(0, self.first - self.length)]
            return torch.cat((self._first[name], new), dim=2) if self._first else new.clone()
        held = self._first[name]  # room for all of them
        places = torch.arange(self.first, device=new.device)
        after = self.first + (places - self.length[:, None]).clamp(max=new.shape[2] - 1)
        index = torch.where(places < self.length[:, None], places, after)[:, None, :, None]
        return torch.cat((held, new), dim=2).gather(2, index.expand_as(held))

    def read(self) -> Stretch:
        """The last tokens, oldest first."""
        kept = next(iter(self._last.values())).shape[2]
        return Stretch(self._last, self._mask, self.length - kept)

    def read_first(self) -> Stretch:
        """The first tokens."""
        mask = None if self._mask is None else self._mask[:, : self.first]
        return Stretch(self._first, mask, 0)

    def keep(self, rows: Tensor) -> None:
        self._last = {name: x.index_select(0, rows) for name, x in self._last.items()}
        self._first = {name: x.index_select(0, rows) for name, x in self._first.items()}
        if self._mask is not None:
            self._mask = self._mask.index_select(0, rows)
        if isinstance(self.length, Tensor):
            self.length = self.length.index_select(0, rows)

    def merge(self, other: Self, rows: int, more: int) -> None:
        like = self._last or other._last
        if not like:
            return
        if isinstance(self.length, Tensor) or self.length != other.length:
            lengths = self._make_ragged(like, rows), other._make_ragged(like, more)
            self.length = torch.cat(lengths)
        kept = max(x.shape[2] for ring in (self, other) for x in ring._last.values())
        for name in like:
            last = (self._last[name], other._last[name])
            self._last[name] = torch.cat([pad(x, (0, 0, kept - x.shape[2], 0)) for x in last])
            self._first[name] = torch.cat((self._first[name], other._first[name]))

    def _make_ragged(self, like: dict[str, Tensor], rows: int) -> Tensor:
        """Make room for all the first tokens. Returns: the length of each row."""
        for name, x in like.items():
            nothing = x.new_zeros(rows, x.shape[1], 0, x.shape[3])
            first = self._first.get(name, nothing)
            self._last.setdefault(name, nothing)
            self._first[name] = pad(first, (0, 0, 0, self.first - first.shape[2]))
        if isinstance(self.length, Tensor):
            return self.length
        return torch.full((rows,), self.length, device=x.device)

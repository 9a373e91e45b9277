"""Memories of attention mechanisms: storage of the tokens or states that queries read."""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.functional.varlen import Borders


class Memory(Protocol):
    """The operations that a search needs of any memory."""

    @property
    def rows(self) -> int:
        """Number of rows N."""

    @property
    def nbytes(self) -> int:
        """Size of all rows in bytes, without spare capacity."""

    def fork(self, parents: Tensor) -> None:
        """Continue row i from row parents[i]; parents is (N,), and an index may repeat."""
        self.keep(parents)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, (N',) ascending, and drop all others."""

    def merge(self, other: Any, rows: int, more: int) -> None:
        """Append the rows of another memory of the same kind.

        Args:
            other: memory of other sentences, longer or shorter; do not use it afterwards.
            rows, more: number of rows of this memory and of `other`; an empty memory does not
                know its number of rows.

        Raises: ValueError if all rows of this kind of memory must have the same length.
        """
        raise ValueError(
            "this memory can only hold rows of one length. To merge states, start both with "
            "pages=PagePool(...); if an attention keeps only a window of tokens, decode them one "
            "after the other instead"
        )


class TokenMemory(Memory, Protocol):
    """The interface of a memory that stores every token.

    Attributes:
        beams: K, number of hypotheses of a sentence that share one row as queries; key j is at
            position j // K. It is 1 if each hypothesis has its own row.
    """

    beams: int

    def append(self, streams: dict[str, Tensor]) -> None:
        """Add n tokens to every row; each stream is (N, n, heads, width)."""

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        """Read the streams (N, S, heads, width), and a mask (N, S), True = real; None = all are.

        With several beams, rows are sentences, and the mask (B, T, S) has the keys that each of the
        T newest queries may read.
        """


class DenseMemory(TokenMemory):
    """A memory with one entry per token, in tensors that are written in place and doubled when
    full. All rows have the same length.

    The storage is head-major, (N, heads, capacity, width). Every step of attention reads the keys
    of one head after another, which is several times faster than with the token-major layout of the
    interface. Since `append` writes in place, gradients need a memory made by `of`.

    Args:
        folds: whether hypotheses of a sentence may share one row as queries; see `slab`.

    Attributes:
        storage: streams (rows, heads, capacity, width), of which the first `length` are valid.
        kept: the N rows of the storage still in use, in order; None = all. The other rows are freed
            when the storage is next copied or read as tensors.
        mask: (N, S), True = real; None = all are real.
    """

    FIRST_CAPACITY = 32
    beams = 1

    def __init__(self, folds: bool = False) -> None:
        self.folds = folds
        self.length = 0
        self.storage: dict[str, Tensor] = {}
        self.kept: Tensor | None = None
        self.mask: Tensor | None = None

    @classmethod
    def of(cls, streams: dict[str, Tensor], mask: Tensor | None) -> Self:
        """The memory of a whole sequence, as views: streams (N, S, heads, width), mask (N, S)."""
        memory = cls()
        memory.storage = {name: x.transpose(1, 2) for name, x in streams.items()}
        memory.mask = mask
        memory.length = next(iter(streams.values())).shape[1]
        return memory

    def compact(self) -> None:
        """Prepare for many reads: make the storage contiguous; drop a mask that hides nothing."""
        self._drop_rows()
        self.storage = {name: x.contiguous() for name, x in self.storage.items()}
        if self.mask is not None and self.mask.all():
            self.mask = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.storage.values())) if self.kept is None else self.kept)

    @property
    def nbytes(self) -> int:
        self._drop_rows()
        return sum(x[:, :, : self.length].nbytes for x in self.storage.values())

    def append(self, streams: dict[str, Tensor]) -> None:
        self._drop_rows()
        start = self.length
        self.extend(streams, next(iter(streams.values())).shape[1])
        for name, x in streams.items():
            self.storage[name][:, :, start : self.length] = x.transpose(1, 2)

    def extend(self, like: dict[str, Tensor], n: int) -> None:
        """Make room for n more tokens in every row, which the caller writes into `storage`.

        Args:
            like: streams (N, ., heads, width) of the same shapes and types.
            n: number of tokens.
        """
        end = self.length + n
        if not self.storage or next(iter(self.storage.values())).shape[2] < end:
            self._drop_rows()
            for name, x in like.items():
                self.storage[name] = self._grow(x, self.storage.get(name), end)
        self.length = end

    def _grow(self, x: Tensor, old: Tensor | None, needed: int) -> Tensor:
        """Allocate a buffer of at least twice the length, so that n tokens need O(n) copies."""
        capacity = max(self.FIRST_CAPACITY * self.beams, needed, 2 * self.length)
        buffer = x.new_empty(x.shape[0], x.shape[2], capacity, x.shape[3])
        if old is not None:
            buffer[:, :, : self.length] = old[:, :, : self.length]
        return buffer

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        self._drop_rows()
        views = {name: x[:, :, : self.length].transpose(1, 2) for name, x in self.storage.items()}
        return views, self.mask

    def keep(self, rows: Tensor) -> None:
        # Copied, since the caller may change `rows` before the rows are dropped.
        self.kept = rows.clone() if self.kept is None else self.kept.index_select(0, rows)
        if self.mask is not None:
            self.mask = self.mask.index_select(0, rows)

    def _drop_rows(self) -> None:
        """Free the rows that are not kept, and put the kept rows in order."""
        if self.kept is not None:
            kept, self.kept = self.kept, None
            self.storage = {name: self._select(x, kept) for name, x in self.storage.items()}

    def _select(self, x: Tensor, rows: Tensor) -> Tensor:
        """Select rows of a buffer without copying its spare capacity."""
        if x.requires_grad:  # `out=` has no gradient
            return x.index_select(0, rows)
        chosen, live = x.new_empty(len(rows), *x.shape[1:]), slice(0, self.length)
        torch.index_select(x[:, :, live], 0, rows, out=chosen[:, :, live])
        return chosen


class PackedMemory(DenseMemory):
    """The tokens of many sentences as one row, remembered all at once, with gradients.

    Args:
        borders: sentences of the queries that will read it, and of its own tokens.
    """

    def __init__(self, borders: Borders) -> None:
        super().__init__()
        self.borders = borders

    def append(self, streams: dict[str, Tensor]) -> None:
        """Remember all tokens, as views; each stream (1, S, heads, width)."""
        self.storage = {name: x.transpose(1, 2) for name, x in streams.items()}


class StateMemory(Memory):
    """A memory of fixed size, whatever the length: an RNN's hidden state, a pooled source or
    running sums.

    Attributes:
        state: tensors (N, ...).
        blank: values for rows that have no token yet, if they are not zero.
    """

    def __init__(self, **state: Tensor) -> None:
        self.state = state
        self.blank: Mapping[str, float] = {}

    @property
    def rows(self) -> int:
        return next(iter(self.state.values())).shape[0]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in self.state.values())

    def keep(self, rows: Tensor) -> None:
        self.state = {name: x.index_select(0, rows) for name, x in self.state.items()}

    def merge(self, other: "StateMemory", rows: int, more: int) -> None:
        def part(state: dict[str, Tensor], name: str, like: Tensor, count: int) -> Tensor:
            if name in state:
                return state[name]
            return like.new_full((count, *like.shape[1:]), self.blank.get(name, 0))

        self.state = {
            name: torch.cat((part(self.state, name, x, rows), part(other.state, name, x, more)))
            for name, x in {**other.state, **self.state}.items()
        }


class SourceMemory(StateMemory):
    """A state of fixed size made from a whole sequence, and a reference to that sequence.

    Queries need only the state; the sequence is for computing weights. It is the model's own
    tensor, shared by all layers and not copied before a `merge`.
    """

    def __init__(self, x: Tensor, mask: Tensor | None, **state: Tensor) -> None:
        super().__init__(**state)
        self._x, self._mask = x, mask
        self._rows: Tensor | None = None  # rows of x still in use, in order; None = all

    @property
    def rows(self) -> int:
        return len(self._x if self._rows is None else self._rows)

    def tokens(self) -> tuple[Tensor, Tensor | None]:
        """x (N, S, E) and the mask (N, S) of the rows still in use."""
        if self._rows is None:
            return self._x, self._mask
        return self._x[self._rows], None if self._mask is None else self._mask[self._rows]

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        self._rows = rows if self._rows is None else self._rows.index_select(0, rows)

    def merge(self, other: StateMemory, rows: int, more: int) -> None:
        assert isinstance(other, SourceMemory)
        super().merge(other, rows, more)
        parts = [self.tokens(), other.tokens()]
        longest = max(x.shape[1] for x, _ in parts)
        # Padding is zero, which means False in a mask.
        wide = [pad(x, (0, 0, 0, longest - x.shape[1])) for x, _ in parts]
        real = [x.new_ones(x.shape[:2], dtype=torch.bool) if m is None else m for x, m in parts]
        self._mask = torch.cat([pad(mask, (0, longest - mask.shape[1])) for mask in real])
        self._x, self._rows = torch.cat(wide), None


class JointMemory:
    """A memory of every token combined with a state of fixed size, with the same rows."""

    def __init__(self, tokens: TokenMemory, context: StateMemory) -> None:
        self.tokens, self.context, self.beams = tokens, context, tokens.beams
        self.parts: tuple[Memory, ...] = (tokens, context)

    @property
    def rows(self) -> int:
        return self.tokens.rows

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def append(self, streams: dict[str, Tensor]) -> None:
        self.tokens.append(streams)

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        return self.tokens.read()

    def fork(self, parents: Tensor) -> None:
        for part in self.parts:
            part.fork(parents)

    def keep(self, rows: Tensor) -> None:
        for part in self.parts:
            part.keep(rows)

    def merge(self, other: Self, rows: int, more: int) -> None:
        for part, joining in zip(self.parts, other.parts, strict=True):
            part.merge(joining, rows, more)


def tokens_of(memory: Memory) -> DenseMemory | None:
    """The part of a memory that has one entry per token, or None."""
    tokens = memory.tokens if isinstance(memory, JointMemory) else memory
    return tokens if isinstance(tokens, DenseMemory) else None


def with_tokens(memory: Memory, tokens: TokenMemory) -> Memory:
    """The memory with another token part (see `tokens_of`)."""
    return JointMemory(tokens, memory.context) if isinstance(memory, JointMemory) else tokens

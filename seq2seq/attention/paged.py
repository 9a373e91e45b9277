"""Token memories in pages, and the conversion of other memories to them."""

from typing import Self

import torch
from torch import Tensor

from seq2seq.attention.memory import Memory, TokenMemory, tokens_of, with_tokens
from seq2seq.attention.page_pool import PagePool, Slots, SlotTable


class PagedMemory(TokenMemory):
    """The tokens of a layer in a pool, each written once.

    The table records which tokens make up a row. The owner of the table forks, keeps and merges it,
    once for all layers.
    """

    beams = 1
    kept: Tensor | None = None  # `storage` has a single row, which is always in use

    def __init__(self, table: SlotTable, layer: int) -> None:
        self.table, self.layer = table, layer
        self.storage: dict[str, Tensor] = {}  # (1, heads, slots, width), for all rows
        self.arrays: dict[str, Tensor] = {}  # the same as (heads * slots, width)

    @property
    def rows(self) -> int:
        return self.table.rows

    @property
    def nbytes(self) -> int:
        slots = sum(x.nbytes for x in self.arrays.values()) // self.table.pool.slots
        return self.table.written * slots

    def extend(self, like: dict[str, Tensor], n: int) -> None:
        """Prepare storage for the tokens that the table added last, which the caller writes.

        Args:
            like: streams (N, ., heads, width) of the same shapes and types.
            n: number of tokens in every row.
        """
        for name, x in like.items():
            if name not in self.arrays:
                array = self.table.pool.array(self.layer, name, x)
                self.storage[name], self.arrays[name] = array[None], array.flatten(0, 1)

    def append(self, streams: dict[str, Tensor]) -> None:
        """Write the tokens that the table added last; each stream is (N, n, heads, width)."""
        self.extend(streams, self.table.new.slots.shape[1])
        for name, x in streams.items():
            tokens = x if self.table.real is None else x[self.table.real]
            index = self.table.new.index(x.shape[2])
            self.arrays[name].index_copy_(0, index, tokens.reshape(-1, x.shape[3]))

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        """Like `TokenMemory.read`. The result is valid until another layer reads."""
        scratch, streams = self.table.scratch, {}
        for name, array in self.arrays.items():
            index = self.index(array)
            needed, buffer = len(index) * array.shape[1], scratch.get((name, array.dtype))
            if buffer is None or len(buffer) < needed:
                buffer = scratch[name, array.dtype] = array.new_empty(2 * needed)
            out = buffer[:needed].view(len(index), -1)
            streams[name] = self.by_rows(torch.index_select(array, 0, index, out=out))
        return streams, self.table.view.mask

    def index(self, array: Tensor) -> Tensor:
        return self.table.view.index(len(array) // self.table.pool.slots)

    def by_rows(self, gathered: Tensor) -> Tensor:
        """(N heads S, width) -> (N, S, heads, width)."""
        rows, tokens = self.table.view.slots.shape
        return gathered.view(rows, -1, tokens, gathered.shape[1]).transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        pass

    def merge(self, other: Self, rows: int, more: int) -> None:
        self.arrays, self.storage = self.arrays or other.arrays, self.storage or other.storage


class PagedSource(PagedMemory):
    """A whole sequence in pages, which is copied out again only when sentences enter or leave."""

    _seen: Slots | None = None

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        view = self.table.view
        if view is not self._seen:
            self._seen = view
            self._streams = {
                name: self.by_rows(x.index_select(0, self.index(x)))
                for name, x in self.arrays.items()
            }
        return self._streams, view.mask


def to_pages(memory: Memory, table: SlotTable, layer: int) -> Memory:
    """Convert a memory to one with its tokens in pages; unchanged if it keeps no tokens.

    If it already has tokens, these must be the tokens that the table added last.
    """
    tokens = tokens_of(memory)
    if tokens is None:
        return memory
    if not tokens.length:
        return with_tokens(memory, PagedMemory(table, layer))
    source = PagedSource(table, layer)
    source.append(tokens.read()[0])
    return with_tokens(memory, source)


def source_table(memories: list[Memory], pool: PagePool) -> SlotTable | None:
    """Make a table of the slots of source tokens; None if no layer keeps tokens.

    Raises: ValueError, without taking a page, if the pool has too few free pages.
    """
    tokens = next((memory for memory in map(tokens_of, memories) if memory is not None), None)
    if tokens is None:
        return None
    _, mask = tokens.read()
    counts = [tokens.length] * tokens.rows
    if mask is not None:
        counts = mask.sum(1).clamp(min=1).tolist()
    table = SlotTable(pool, tokens.rows)
    if not table.reserve(counts):
        raise ValueError(
            f"{pool.free} pages of {pool.page_size} tokens are free, too few for sources of "
            f"{sum(counts)} tokens: see `Seq2Seq.pages_for`, or make PagePool(pages=...) larger"
        )
    table.grow(torch.arange(tokens.length, device=pool.device), counts)
    return table

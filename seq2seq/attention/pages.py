"""Paged memories: tokens of all lengths side by side in one storage, without room for the longest.

Storage is cut into pages of a few slots, and a slot holds one token. A row owns its pages, and each
of its tokens is written once, to the row's own next slot. What a row reads is a line of a table of
slots, so that to go on from another hypothesis is to copy integers: no key or value moves. Slots of
other rows stay right to read, since pages are given back only when their whole sentence leaves.
"""

from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.attention.memory import DenseMemory, JointMemory, Memory, tokens_of


class PagePool:
    """Numbers of free and of taken pages, and the storage that they are pages of.

    Args:
        pages: how many there are, for sources and targets together.
        page_size: P, slots of a page.
        device: of the tables.

    Attributes:
        high_water: most pages that were ever taken at once.
        arrays: storage (heads, pages * P, width), one for each layer, stream and size. It is made
            when the first token comes, and shared by all states over this pool.
    """

    def __init__(self, pages: int, page_size: int, device: torch.device | str = "cpu") -> None:
        self.pages, self.page_size, self.device = pages, page_size, torch.device(device)
        self.high_water = 0
        self.arrays: dict[tuple[int, str, int, int, torch.dtype], Tensor] = {}
        self._free = list(range(pages))[::-1]
        self._taken: set[int] = set()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return len(self._taken)

    @property
    def slots(self) -> int:
        return self.pages * self.page_size

    def alloc(self, n: int) -> list[int] | None:
        """n pages, or None and nothing changed if there are not so many. The last given back come
        first, since they may still be in a cache.
        """
        if n > len(self._free):
            return None
        pages = [self._free.pop() for _ in range(n)]
        self._taken.update(pages)
        self.high_water = max(self.high_water, self.used)
        return pages

    def release(self, pages: list[int]) -> None:
        """Give pages back.

        Raises: KeyError for a page that is not taken.
        """
        for page in pages:
            self._taken.remove(page)
        self._free.extend(pages)

    def check(self) -> None:
        """Every page is either free or taken, and once. Raises: AssertionError."""
        assert sorted([*self._free, *self._taken]) == list(range(self.pages)), "pages went astray"

    def array(self, layer: int, name: str, like: Tensor) -> Tensor:
        """The storage of a stream like (..., heads, width): (heads, slots, width)."""
        heads, width = like.shape[-2:]
        key = (layer, name, heads, width, like.dtype)
        if key not in self.arrays:
            self.arrays[key] = like.new_empty(heads, self.slots, width)
        return self.arrays[key]


class View:
    """The slots that can be read (rows, T), and which are real; those that are not repeat the row's
    first, so that nothing unwritten is ever read.
    """

    def __init__(self, slots: Tensor, mask: Tensor | None) -> None:
        self.slots, self.mask = slots, mask
        self._indices: dict[int, Tensor] = {}

    def index(self, heads: int, stride: int) -> Tensor:
        """Where the tokens are in (heads * stride) slots, in the order (rows, heads, T)."""
        if heads not in self._indices:
            first = stride * torch.arange(heads, device=self.slots.device)
            self._indices[heads] = (self.slots[:, None] + first[:, None]).flatten()
        return self._indices[heads]


class SlotTable:
    """Where the tokens of B sentences of K rows each are; one for all layers.

    Attributes:
        lengths: tokens in each row of each sentence.
        owned: pages of each sentence.
        new: slots of the tokens that were added last, without padding.
        real: which of them are tokens, (rows, n); None = all.
    """

    def __init__(self, pool: PagePool, sentences: int, beams: int = 1) -> None:
        self.pool, self.beams = pool, beams
        self.lengths = [0] * sentences
        self.owned: list[list[int]] = [[] for _ in range(sentences)]
        nothing = torch.zeros(sentences * beams, 0, dtype=torch.long, device=pool.device)
        self.slots, self._pages = nothing, nothing  # (rows, at least the longest), (rows, pages)
        self.new = nothing
        self.real: Tensor | None = None
        self.scratch: dict[tuple[str, torch.dtype], Tensor] = {}
        self._view: View | None = None

    @property
    def written(self) -> int:
        """Tokens of all rows."""
        return self.beams * sum(self.lengths)

    def reserve(self, counts: list[int]) -> bool:
        """Pages for so many more tokens in the rows of each sentence: for all, or for none."""
        size, rows, columns, owners = self.pool.page_size, [], [], []
        for sentence, (length, count) in enumerate(zip(self.lengths, counts, strict=True)):
            held = len(self.owned[sentence]) // self.beams
            for column in range(held, -(-(length + count) // size)):
                for lane in range(self.beams):
                    rows.append(sentence * self.beams + lane)
                    columns.append(column)
                    owners.append(sentence)
        pages = self.pool.alloc(len(rows))
        if pages is None:
            return False
        if pages:
            for sentence, page in zip(owners, pages, strict=True):
                self.owned[sentence].append(page)
            self._pages = widened(self._pages, max(columns) + 1)
            where = torch.tensor([rows, columns, pages], device=self.pool.device)
            self._pages[where[0], where[1]] = where[2]
        return True

    def grow(self, counts: list[int]) -> None:
        """Add so many tokens to the rows of each sentence, for which pages are there."""
        device, most = self.pool.device, max(counts, default=0)
        steps = torch.arange(most, device=device)
        places = self._of_rows(self.lengths) + steps  # (rows, most)
        column = (places // self.pool.page_size).clamp(max=self._pages.shape[1] - 1)
        new = self._pages.gather(1, column) * self.pool.page_size + places % self.pool.page_size
        self.real = None
        if min(counts, default=0) < most:
            self.real = steps < self._of_rows(counts)
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        longest = max(self.lengths, default=0)
        if self.slots.shape[1] < longest:
            self.slots = widened(self.slots, max(longest, 2 * self.slots.shape[1]))
        self.slots.scatter_(1, places, new)
        self.new = new.flatten() if self.real is None else new[self.real]
        self._view = None

    def _of_rows(self, numbers: list[int]) -> Tensor:
        """A number of each sentence, in each of its rows: (rows, 1)."""
        each = torch.tensor(numbers, dtype=torch.long, device=self.pool.device)
        return each.repeat_interleave(self.beams)[:, None]

    @property
    def view(self) -> View:
        """The same object until something changes."""
        if self._view is None:
            longest = max(self.lengths, default=0)
            slots, mask = self.slots[:, :longest], None
            if min(self.lengths, default=0) < longest:
                mask = torch.arange(longest, device=slots.device) < self._of_rows(self.lengths)
                slots = torch.where(mask, slots, slots[:, :1])
            self._view = View(slots, mask)
        return self._view

    def fork(self, parents: Tensor) -> None:
        """As of a memory; the pages that a row owns stay its own."""
        longest = max(self.lengths, default=0)
        self.slots[:, :longest] = self.slots[:, :longest].index_select(0, parents)
        self._view = None

    def keep(self, sentences: list[int], rows: Tensor) -> None:
        """Give back the pages of all other sentences."""
        kept = set(sentences)
        for sentence, pages in enumerate(self.owned):
            if sentence not in kept:
                self.pool.release(pages)
        self.owned = [self.owned[sentence] for sentence in sentences]
        self.lengths = [self.lengths[sentence] for sentence in sentences]
        self.slots, self._pages = (x.index_select(0, rows) for x in (self.slots, self._pages))
        self._view = None

    def merge(self, other: Self) -> None:
        """Take over the sentences of another table over the same pool, behind these."""
        self.owned, self.lengths = self.owned + other.owned, self.lengths + other.lengths
        other.owned = []
        self.slots = stacked(self.slots, other.slots)
        self._pages = stacked(self._pages, other._pages)
        self._view = None


class PagedMemory:
    """The tokens of a layer in a pool, written once. Which rows there are is the table's business:
    whoever holds it forks, keeps and merges it, once for all layers.
    """

    def __init__(self, table: SlotTable, layer: int) -> None:
        self.table, self.layer = table, layer
        self.arrays: dict[str, Tensor] = {}

    @property
    def rows(self) -> int:
        return len(self.table.slots)

    @property
    def nbytes(self) -> int:
        a_token = sum(x.shape[0] * x.shape[2] * x.itemsize for x in self.arrays.values())
        return self.table.written * a_token

    def append(self, streams: dict[str, Tensor]) -> None:
        """Write what the table has grown by; each stream (N, n, heads, width)."""
        table = self.table
        for name, x in streams.items():
            array = self.arrays[name] = table.pool.array(self.layer, name, x)
            tokens = x.detach() if table.real is None else x.detach()[table.real]
            first = array.shape[1] * torch.arange(array.shape[0], device=x.device)
            index = (table.new[:, None] + first).flatten()
            array.flatten(0, 1).index_copy_(0, index, tokens.reshape(len(index), -1))

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        """As of every token memory. Valid until the next layer reads."""
        view, scratch = self.table.view, self.table.scratch
        found = {}
        for name, array in self.arrays.items():
            index = view.index(*array.shape[:2])
            needed, buffer = len(index) * array.shape[2], scratch.get((name, array.dtype))
            if buffer is None or len(buffer) < needed:
                buffer = scratch[name, array.dtype] = array.new_empty(needed + needed // 2)
            found[name] = self._gather(array, index, buffer[:needed].view(len(index), -1))
        return found, view.mask

    def _gather(self, array: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
        """What stands at the places of `View.index`: (N, S, heads, width)."""
        found = torch.index_select(array.flatten(0, 1), 0, index, out=out)
        return found.view(self.rows, len(array), -1, array.shape[2]).transpose(1, 2)

    def fork(self, parents: Tensor) -> None:
        pass

    def keep(self, rows: Tensor) -> None:
        pass

    def merge(self, other: Self, rows: int, more: int) -> None:
        self.arrays = self.arrays or other.arrays


class PagedSource(PagedMemory):
    """The same of a sequence that is known whole. What is read is gathered anew only when sentences
    enter or leave, and held till then.
    """

    _seen: View | None = None

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        view = self.table.view
        if view is not self._seen:
            self._seen = view
            self._found = {
                name: self._gather(array, view.index(*array.shape[:2]))
                for name, array in self.arrays.items()
            }
        return self._found, view.mask


def paged(memory: Memory, table: SlotTable, layer: int) -> Memory:
    """A memory with its tokens, if it has any kind of them, in pages; others as they are. Tokens
    that are there already must be what the table has grown by.
    """
    if isinstance(memory, JointMemory):
        tokens = paged(memory.tokens, table, layer)
        assert isinstance(tokens, PagedMemory)
        return JointMemory(tokens, memory.beside)
    if not isinstance(memory, DenseMemory):
        return memory
    if not memory.length:
        return PagedMemory(table, layer)
    source = PagedSource(table, layer)
    source.append(memory.read()[0])
    return source


def source_table(memories: list[Memory], pool: PagePool) -> SlotTable | None:
    """A table with the places of the tokens of sources; None if no layer keeps tokens.

    Raises: ValueError if there are too few pages; none is taken then.
    """
    tokens = next((found for found in map(tokens_of, memories) if found is not None), None)
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
    table.grow(counts)
    return table


def widened(table: Tensor, columns: int) -> Tensor:
    """At least so many columns; what is new is zero."""
    return pad(table, (0, max(0, columns - table.shape[1])))


def stacked(upper: Tensor, lower: Tensor) -> Tensor:
    """The rows of two tables, in one as wide as the wider."""
    return torch.cat((widened(upper, lower.shape[1]), widened(lower, upper.shape[1])))

"""Pages of storage for tokens, and tables of the slots that tokens are in.

Sentences of any length share one storage without wasted capacity. The storage is cut into pages of
a few slots, and a slot holds one token. A row owns its pages, and each of its tokens is written
once, to the row's next slot. A table lists the slots that each row reads, so that continuing
another hypothesis copies integers, not keys and values. The slots of other rows stay valid, because
pages are released only when their whole sentence leaves.
"""

from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad


class PagePool:
    """A storage with its free and used pages.

    Args:
        pages: number of pages, for sources and targets together.
        page_size: P, number of slots in a page.
        device: device of the tables.

    Attributes:
        high_water: most pages that were ever in use at once.
        arrays: storage (heads, pages * P, width) of each layer, stream and size. It is allocated
            for the first token, and shared by all states that use this pool.
    """

    def __init__(self, pages: int, page_size: int, device: torch.device | str = "cpu") -> None:
        self.pages, self.page_size, self.device = pages, page_size, torch.device(device)
        self.slots = pages * page_size
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

    def alloc(self, n: int) -> list[int] | None:
        """Take n free pages, the last released first, since they may still be in a cache.

        Returns: the pages; None, without any change, if fewer than n pages are free.
        """
        if n > len(self._free):
            return None
        pages = [self._free.pop() for _ in range(n)]
        self._taken.update(pages)
        self.high_water = max(self.high_water, self.used)
        return pages

    def release(self, pages: list[int]) -> None:
        """Return pages to the pool.

        Raises: KeyError if a page is not in use.
        """
        for page in pages:
            self._taken.remove(page)
        self._free.extend(pages)

    def array(self, layer: int, name: str, like: Tensor) -> Tensor:
        """The storage (heads, slots, width) for a stream shaped like `like` (..., heads, width)."""
        heads, width = like.shape[-2:]
        key = (layer, name, heads, width, like.dtype)
        if key not in self.arrays:
            self.arrays[key] = like.new_empty(heads, self.slots, width)
        return self.arrays[key]


class Slots:
    """Slots of tokens, (rows, n). Where the mask is False there is no token."""

    def __init__(self, slots: Tensor, mask: Tensor | None, stride: int) -> None:
        self.slots, self.mask, self._stride = slots, mask, stride
        self._indices: dict[int, Tensor] = {}

    @cached_property
    def lengths(self) -> Tensor:
        """Number of tokens in each row, (rows,)."""
        rows, n = self.slots.shape
        return self.slots.new_full((rows,), n) if self.mask is None else self.mask.sum(1)

    def index(self, heads: int) -> Tensor:
        """Flat indices of these slots in (heads * stride), in the order (rows, heads, n)."""
        if heads not in self._indices:
            first = self._stride * torch.arange(heads, device=self.slots.device)
            self._indices[heads] = (self.slots[:, None] + first[:, None]).flatten()
        return self._indices[heads]


class SlotTable:
    """Table of the slots of B sentences with K rows each. All layers share one table.

    Attributes:
        lengths: number of tokens in each row of each sentence.
        owned: pages of each sentence.
        new: slots of the tokens that were added last, (tokens, 1).
        real: mask of the positions added last that hold tokens, (rows, n); None = all.
        scratch: buffers for the tokens that are read, shared by the layers.
    """

    def __init__(self, pool: PagePool, sentences: int, beams: int = 1) -> None:
        self.pool, self.beams = pool, beams
        self.lengths = [0] * sentences
        self.owned: list[list[int]] = [[] for _ in range(sentences)]
        nothing = torch.zeros(sentences * beams, 0, dtype=torch.long, device=pool.device)
        # (rows, at least the longest), (rows, pages of a row); undefined after the end of a row.
        self._slots, self._pages = nothing, nothing
        self.real: Tensor | None = None
        self.scratch: dict[tuple[str, torch.dtype], Tensor] = {}
        self._view: Slots | None = None

    @property
    def rows(self) -> int:
        return len(self._slots)

    @property
    def written(self) -> int:
        """Number of tokens in all rows together."""
        return self.beams * sum(self.lengths)

    def reserve(self, counts: list[int]) -> bool:
        """Reserve pages for `counts` more tokens in each row of each sentence.

        Returns: True if enough pages were free; otherwise no page is reserved.
        """
        size, wanted = self.pool.page_size, []
        for sentence, (length, count) in enumerate(zip(self.lengths, counts, strict=True)):
            held = len(self.owned[sentence]) // self.beams
            for column in range(held, -(-(length + count) // size)):
                first = sentence * self.beams
                wanted += [(row, column) for row in range(first, first + self.beams)]
        pages = self.pool.alloc(len(wanted))
        if pages:
            for (row, _), page in zip(wanted, pages, strict=True):
                self.owned[row // self.beams].append(page)
            rows, columns = torch.tensor(wanted, device=self.pool.device).T
            self._pages = with_columns(self._pages, 1 + max(column for _, column in wanted))
            self._pages[rows, columns] = torch.tensor(pages, device=self.pool.device)
        return pages is not None

    def grow(self, positions: Tensor, counts: list[int] | None = None) -> None:
        """Add tokens to the rows of each sentence. Their pages must be reserved.

        Args:
            positions: positions of the tokens, (n,) or (rows, n).
            counts: number of tokens for each sentence, at most n; None = n for all.
        """
        size, n = self.pool.page_size, positions.shape[-1]
        counts = counts or [n] * len(self.lengths)
        places = positions.expand(self.rows, n)
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        self.real = None
        if min(counts, default=0) < n:
            self.real = torch.arange(n, device=positions.device) < self._by_row(counts)
            places = places.clamp(max=self._pages.shape[1] * size - 1)
        new = self._pages.gather(1, places // size) * size + places % size
        if self._slots.shape[1] < self._pages.shape[1] * size:
            self._slots = with_columns(self._slots, 2 * self._pages.shape[1] * size)
        self._slots.scatter_(1, places, new)
        tokens = new.flatten() if self.real is None else new[self.real]
        self.new = Slots(tokens[:, None], None, self.pool.slots)
        self._view = None

    def _by_row(self, values: list[int]) -> Tensor:
        """Repeat the value of each sentence for each of its rows: (rows, 1)."""
        each = torch.tensor(values, dtype=torch.long, device=self.pool.device)
        return each.repeat_interleave(self.beams)[:, None]

    @property
    def view(self) -> Slots:
        """The slots to read, the same object until something changes.

        After the end of a row its first slot is repeated, so that no unwritten slot is ever read.
        """
        if self._view is None:
            longest = max(self.lengths, default=0)
            slots, mask = self._slots[:, :longest], None
            if min(self.lengths, default=0) < longest:
                mask = torch.arange(longest, device=slots.device) < self._by_row(self.lengths)
                slots = torch.where(mask, slots, slots[:, :1])
            self._view = Slots(slots, mask, self.pool.slots)
        return self._view

    def fork_view(self) -> tuple[Tensor, int]:
        """The slots (rows, room), for the caller to fork in place, and the length of the longest
        row.
        """
        self._view = None
        return self._slots, max(self.lengths, default=0)

    def fork(self, parents: Tensor) -> None:
        """Continue row i from row parents[i]; every row keeps its pages."""
        self._slots, self._view = self._slots.index_select(0, parents), None

    def keep(self, sentences: list[int], rows: Tensor) -> None:
        """Release the pages of all other sentences."""
        for sentence in set(range(len(self.owned))).difference(sentences):
            self.pool.release(self.owned[sentence])
        self.owned = [self.owned[sentence] for sentence in sentences]
        self.lengths = [self.lengths[sentence] for sentence in sentences]
        self._pages = self._pages.index_select(0, rows)
        self.fork(rows)

    def merge(self, other: Self) -> None:
        """Append the sentences of another table over the same pool."""
        self.owned, self.lengths = self.owned + other.owned, self.lengths + other.lengths
        self._pages = stack_tables(self._pages, other._pages)
        self._slots, self._view = stack_tables(self._slots, other._slots), None


def with_columns(table: Tensor, columns: int) -> Tensor:
    """The table with at least `columns` columns; new ones are zero."""
    return pad(table, (0, max(0, columns - table.shape[1])))


def stack_tables(upper: Tensor, lower: Tensor) -> Tensor:
    """Stack the rows of both tables, padding the narrower table with zeros."""
    return torch.cat((with_columns(upper, lower.shape[1]), with_columns(lower, upper.shape[1])))

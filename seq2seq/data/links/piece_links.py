"""Links from target pieces to source pieces, for the rows of a corpus and as tensors of a batch."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# One entry: a target piece, a source piece, and the share of the target piece it accounts for.
ENTRY = np.dtype([("target", "<i4"), ("source", "<i4"), ("share", "<f4")])


class BatchLinks(NamedTuple):
    """The links of a batch, in K entries.

    The shares of a target piece that has links sum to one.

    Attributes:
        places: (3, K) int64: row of the batch, target piece from 0 (the step that writes it), and
            source piece; the position after the last piece is EOS.
        shares: (K,) float32.
        linked: number of target pieces with links.
        total: the same number for the whole global batch.
    """

    places: Tensor
    shares: Tensor
    linked: int
    total: int


class PieceLinks(NamedTuple):
    """The links of all rows of a corpus.

    Attributes:
        row: function that returns the entries of a row, in order of target, read-only.
        linked: (rows,) int32, number of target pieces with links; None to count the entries.
    """

    row: Callable[[int], np.ndarray]
    linked: np.ndarray | None

    def count_linked(self, rows: np.ndarray) -> int:
        """The number of target pieces of some rows that have links."""
        if self.linked is not None:
            return int(self.linked[rows].sum(dtype=np.int64))
        return sum(len(np.unique(self.row(int(row))["target"])) for row in rows)

    def of_batch(self, rows: Sequence[int], total: int) -> BatchLinks:
        """The links of a batch of these rows; `total` as in `BatchLinks`."""
        entries_of_rows = [self.row(row) for row in rows]
        entries = np.concatenate([np.empty(0, ENTRY), *entries_of_rows])
        batch_rows = np.repeat(np.arange(len(rows)), [len(each) for each in entries_of_rows])
        places = np.stack([batch_rows, entries["target"], entries["source"]]).astype(np.int64)
        shares = np.ascontiguousarray(entries["share"])
        linked = self.count_linked(np.array(rows, np.int64))
        return BatchLinks(torch.from_numpy(places), torch.from_numpy(shares), linked, total)

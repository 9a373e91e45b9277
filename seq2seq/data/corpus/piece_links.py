"""Links from target pieces to source pieces: files on disk, and tensors of a batch."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.corpus.ragged_array import RaggedArray, RaggedWriter, map_array

# One entry: a target piece, a source piece, and the share of the target piece it accounts for.
ENTRY = np.dtype([("target", "<i4"), ("source", "<i4"), ("share", "<f4")])


class BatchLinks(NamedTuple):
    """The links of a batch: K entries.

    The shares of a target piece that has links sum to one.

    Attributes:
        places: (3, K) int64: row of the batch, target piece from 0 (the step that writes it), and
            source piece; the position after the last piece is EOS.
        shares: (K,) float32.
        linked: target pieces with links.
        total: likewise, of the whole global batch.
    """

    places: Tensor
    shares: Tensor
    linked: int
    total: int


class PieceLinks:
    """The links of all rows of a corpus, on disk.

    Attributes:
        linked: (rows,) int32, target pieces of each row that have links.
    """

    def __init__(self, folder: Path):
        self._entries = RaggedArray(folder, "entries", ENTRY)
        self.linked = map_array(folder / "linked", "<i4")

    def row(self, index: int) -> np.ndarray:
        """The entries of a row, read-only."""
        return self._entries[index]

    def count(self, rows: np.ndarray) -> int:
        """Target pieces of some rows that have links."""
        return int(self.linked[rows].sum(dtype=np.int64))

    def of_batch(self, rows: Sequence[int], total: int) -> BatchLinks:
        """The links of a batch of these rows; `total` as in `BatchLinks`."""
        entries_of_rows = [self.row(row) for row in rows]
        entries = np.concatenate([np.empty(0, ENTRY), *entries_of_rows])
        batch_rows = np.repeat(np.arange(len(rows)), [len(each) for each in entries_of_rows])
        places = np.stack([batch_rows, entries["target"], entries["source"]]).astype(np.int64)
        shares = np.ascontiguousarray(entries["share"])
        linked = self.count(np.array(rows, np.int64))
        return BatchLinks(torch.from_numpy(places), torch.from_numpy(shares), linked, total)


def write_links(folder: Path, rows: Iterable[np.ndarray]) -> None:
    """Write the files of `PieceLinks`, row by row; a row's entries are in order of target."""
    linked = []
    with ExitStack() as files:
        entries = RaggedWriter(files, folder, "entries")
        for row in rows:
            entries.append(row, np.array([len(row)]))
            linked.append(len(np.unique(row["target"])))
    np.array(linked, "<i4").tofile(folder / "linked")

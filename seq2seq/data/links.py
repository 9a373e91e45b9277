"""Links from target pieces to source pieces: files on disk, and tensors of a batch."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.file_array import mapped, stored

# One entry: a target piece, a source piece, and the share of the target piece it accounts for.
ENTRY = np.dtype([("target", "<i4"), ("source", "<i4"), ("share", "<f4")])
FILES = {"entries": ENTRY, "offsets": np.dtype("<i8"), "asked": np.dtype("<i4")}


class BatchLinks(NamedTuple):
    """The links of a batch: K entries.

    The shares of a target piece that has links sum to one.

    Attributes:
        places: (3, K) int64: row of the batch, target piece from 0 (the step that writes it), and
            source piece; the position after the last piece is EOS.
        shares: (K,) float32.
        asked: target pieces with links.
        total: likewise, of the whole global batch.
    """

    places: Tensor
    shares: Tensor
    asked: int
    total: int


class PieceLinks:
    """The links of all rows of a corpus, on disk.

    Attributes:
        asked: (rows,) int32, target pieces of each row that have links.
    """

    def __init__(self, folder: Path):
        self._entries, self._offsets = (
            stored(folder / name, FILES[name]) for name in ("entries", "offsets")
        )
        self.asked = mapped(folder / "asked", FILES["asked"])

    def row(self, index: int) -> np.ndarray:
        """The entries of a row, read-only."""
        start, stop = self._offsets[index : index + 2].tolist()
        return self._entries[start:stop]

    def count(self, rows: np.ndarray) -> int:
        """Target pieces of some rows that have links."""
        return int(self.asked[rows].sum(dtype=np.int64))

    def of(self, rows: Sequence[int], total: int) -> BatchLinks:
        """The links of a batch of these rows; `total` as in `BatchLinks`."""
        entries_of_rows = [self.row(row) for row in rows]
        entries = np.concatenate([np.empty(0, ENTRY), *entries_of_rows])
        batch_rows = np.repeat(np.arange(len(rows)), [len(each) for each in entries_of_rows])
        places = np.stack([batch_rows, entries["target"], entries["source"]]).astype(np.int64)
        shares = np.ascontiguousarray(entries["share"])
        asked = self.count(np.array(rows, np.int64))
        return BatchLinks(torch.from_numpy(places), torch.from_numpy(shares), asked, total)


def write_links(folder: Path, rows: Iterable[np.ndarray]) -> int:
    """Write the files of `PieceLinks`, row by row; a row's entries are in order of target.

    Returns: how many rows there are.
    """
    entries, offsets, asked = (folder / name for name in FILES)
    count = end = 0
    with entries.open("wb") as e, offsets.open("wb") as o, asked.open("wb") as a:
        np.zeros(1, "<i8").tofile(o)
        for row in rows:
            count += 1
            end += len(row)
            row.tofile(e)
            np.array([end], "<i8").tofile(o)
            np.array([len(np.unique(row["target"]))], "<i4").tofile(a)
    return count

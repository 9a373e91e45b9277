"""Which source pieces each target piece translates: numbers on disk, and those of a batch."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# One entry: a target piece, a source piece, and the part of the target piece that comes from it.
ENTRY = np.dtype([("target", "<i4"), ("source", "<i4"), ("share", "<f4")])
FILES = ("entries", "offsets", "asked")


class BatchLinks(NamedTuple):
    """The links of a batch: K entries.

    The shares of a target piece that is asked for anything add up to one.

    Attributes:
        places: (3, K) int64: the row of the batch, the target piece counted from 0, which is the
            step that writes it, and the source piece; behind a row's last one stands its end.
        shares: (K,) float32.
        asked: target pieces with an entry.
        total: likewise, of the whole global batch this piece was cut from.
    """

    places: Tensor
    shares: Tensor
    asked: int
    total: int


class PieceLinks:
    """The links of all rows of a corpus, mapped into memory.

    Attributes:
        asked: (rows,) int32, target pieces of each row that have links.
    """

    def __init__(self, folder: Path):
        entries, offsets, asked = (folder / name for name in FILES)
        # As plain arrays: slicing a memmap object costs ten times more than slicing its memory.
        self._entries = np.asarray(mapped(entries, ENTRY))
        self._offsets = np.asarray(mapped(offsets, np.dtype("<i8")))
        self.asked = np.asarray(mapped(asked, np.dtype("<i4")))

    def row(self, index: int) -> np.ndarray:
        """The entries of a row, read-only."""
        return self._entries[self._offsets[index] : self._offsets[index + 1]]

    def count(self, rows: np.ndarray) -> int:
        """Target pieces of some rows that have links."""
        return int(self.asked[rows].sum(dtype=np.int64))

    def of(self, rows: Sequence[int], total: int) -> BatchLinks:
        """Those of a batch of these rows. `total`: as of `BatchLinks`."""
        found = [self.row(row) for row in rows]
        entries = np.concatenate([np.empty(0, ENTRY), *found])
        numbers = np.repeat(np.arange(len(rows)), [len(each) for each in found])
        places = np.stack([numbers, entries["target"], entries["source"]]).astype(np.int64)
        shares = np.ascontiguousarray(entries["share"])
        asked = self.count(np.array(rows, np.int64))
        return BatchLinks(torch.from_numpy(places), torch.from_numpy(shares), asked, total)


def mapped(path: Path, kind: np.dtype) -> np.ndarray:
    """A file as an array that is read when it is looked at; an empty one cannot be mapped."""
    return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)


def write_links(folder: Path, rows: Iterable[np.ndarray]) -> None:
    """Write the files of `PieceLinks`, one row of entries, in order of target pieces, at a time."""
    entries, offsets, asked = (folder / name for name in FILES)
    end = 0
    with entries.open("wb") as e, offsets.open("wb") as o, asked.open("wb") as a:
        np.zeros(1, "<i8").tofile(o)
        for row in rows:
            end += len(row)
            row.tofile(e)
            np.array([end], "<i8").tofile(o)
            np.array([len(np.unique(row["target"]))], "<i4").tofile(a)


def is_whole(folder: Path, rows: int) -> bool:
    """Does a folder hold the links of so many rows, all that was written?"""
    try:
        sizes = [(folder / name).stat().st_size for name in FILES]
        expected = np.fromfile(folder / FILES[1], "<i8", offset=8 * rows, count=1)
    except (OSError, ValueError):
        return False
    if len(expected) != 1:
        return False
    return sizes == [int(expected[0]) * ENTRY.itemsize, 8 * (rows + 1), 4 * rows]

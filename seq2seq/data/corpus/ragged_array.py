"""Arrays in files, mapped into memory or read in slices, and rows of different lengths stored in
them, such as the piece ids of sentences.
"""

import mmap
import os
from contextlib import ExitStack
from pathlib import Path
from weakref import finalize

import numpy as np

OFFSETS, LENGTHS = "<i8", "<i4"
WINDOW = 2**14  # number of offsets read from disk together: 128 KiB


class FileArray:
    """An array in a file, read in slices.

    Unlike a mapped file, it leaves nothing in the memory of the process. Of a mapped file, up to
    2 MiB around each access stays there until the system needs the memory.
    """

    def __init__(self, path: Path, kind: np.dtype | str):
        self._kind = np.dtype(kind)
        self._size = self._kind.itemsize
        self._file = os.open(path, os.O_RDONLY)
        finalize(self, os.close, self._file)

    def __getitem__(self, part: slice) -> np.ndarray:
        data = os.pread(self._file, (part.stop - part.start) * self._size, part.start * self._size)
        return np.frombuffer(data, self._kind)

    def read_ahead(self, start: int, stop: int) -> None:
        """Ask the system to read a slice from disk, without waiting for it."""
        if hasattr(os, "posix_fadvise"):  # missing on macOS
            place, count = start * self._size, (stop - start) * self._size
            os.posix_fadvise(self._file, place, count, os.POSIX_FADV_WILLNEED)


def map_array(path: Path, kind: np.dtype | str) -> np.ndarray:
    """Map a file into memory as an array; an empty file gives an empty array without a mapping."""
    if path.stat().st_size == 0:
        return np.empty(0, kind)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # A plain array: slicing numpy's memmap object is ten times slower.
    return np.ndarray(len(memory) // np.dtype(kind).itemsize, kind, memory)


def release_memory(array: np.ndarray) -> None:
    """Free the memory of a mapped file; it is read from disk again when needed."""
    if isinstance(array.base, mmap.mmap):
        array.base.madvise(mmap.MADV_DONTNEED)


class RaggedArray:
    """Concatenated rows in a file NAME.values; row i is `values[offsets[i] : offsets[i + 1]]`.

    Args:
        kind: type of the values.

    Attributes:
        lengths: (rows,) int32, mapped into memory.
    """

    def __init__(self, folder: Path, name: str, kind: np.dtype | str):
        self._values = FileArray(folder / f"{name}.values", kind)
        self._offsets = FileArray(folder / f"{name}.offsets", OFFSETS)
        self.lengths = map_array(folder / f"{name}.lengths", LENGTHS)

    def __getitem__(self, row: int) -> np.ndarray:
        """A row, read-only."""
        start, stop = self._offsets[row : row + 2].tolist()
        return self._values[start:stop]

    def read_ahead(self, rows: np.ndarray) -> None:
        """Ask the system to read rows from disk, without waiting for it."""
        # Read offsets around them too: they are small, and all are needed soon.
        for window in (np.unique(rows // WINDOW) * WINDOW).tolist():
            self._offsets.read_ahead(window, window + WINDOW + 1)
        for row in rows.tolist():
            self._values.read_ahead(*self._offsets[row : row + 2].tolist())


class RaggedWriter:
    """Appends rows to the files of a `RaggedArray`; the exit stack `files` closes them."""

    def __init__(self, files: ExitStack, folder: Path, name: str):
        self._values, self._offsets, self._lengths = (
            files.enter_context((folder / f"{name}.{part}").open("wb"))
            for part in ("values", "offsets", "lengths")
        )
        self._end = 0
        np.zeros(1, OFFSETS).tofile(self._offsets)

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        """Append rows, given as concatenated values and their lengths."""
        values.tofile(self._values)
        (np.cumsum(lengths, dtype=OFFSETS) + self._end).tofile(self._offsets)
        lengths.astype(LENGTHS).tofile(self._lengths)
        self._end += len(values)

"""Arrays in files, mapped into memory or read slice by slice, and rows of different lengths in
them, such as the piece ids of sentences.
"""

import mmap
import os
from contextlib import ExitStack
from pathlib import Path
from weakref import finalize

import numpy as np

OFFSETS, LENGTHS = "<i8", "<i4"
WINDOW = 2**14  # offsets that are read from disk together: 128 KiB


class FileArray:
    """An array in a file, of which slices are read.

    What was read of a mapped file stays in the memory of the process, up to 2 MiB around it, until
    the system needs it for others. Nothing of this one does.
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
        """Let the system read a slice from disk, without waiting for it."""
        if hasattr(os, "posix_fadvise"):  # macOS has none
            place, count = start * self._size, (stop - start) * self._size
            os.posix_fadvise(self._file, place, count, os.POSIX_FADV_WILLNEED)


def map_array(path: Path, kind: np.dtype | str) -> np.ndarray:
    """A file as a memory-mapped array; an empty file, which cannot be mapped, as an empty one."""
    if path.stat().st_size == 0:
        return np.empty(0, kind)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # A plain array: slicing numpy's memmap object is ten times slower.
    return np.ndarray(len(memory) // np.dtype(kind).itemsize, kind, memory)


def release_memory(array: np.ndarray) -> None:
    """Take what was read of a mapped file out of memory; it is read again when needed."""
    if isinstance(array.base, mmap.mmap):
        array.base.madvise(mmap.MADV_DONTNEED)


class RaggedArray:
    """Rows end to end in a file NAME.values; row i is `values[offsets[i] : offsets[i + 1]]`.

    Args:
        kind: the type of a value.

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
        """Let the system read rows from disk, without waiting for it."""
        # Around them too: there are few offsets beside values, and all of them are needed soon.
        for window in (np.unique(rows // WINDOW) * WINDOW).tolist():
            self._offsets.read_ahead(window, window + WINDOW + 1)
        for row in rows.tolist():
            self._values.read_ahead(*self._offsets[row : row + 2].tolist())


class RaggedWriter:
    """Appends rows to the files of a `RaggedArray`, which `files` closes."""

    def __init__(self, files: ExitStack, folder: Path, name: str):
        self._values, self._offsets, self._lengths = (
            files.enter_context((folder / f"{name}.{part}").open("wb"))
            for part in ("values", "offsets", "lengths")
        )
        self._end = 0
        np.zeros(1, OFFSETS).tofile(self._offsets)

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        """Append rows, end to end."""
        values.tofile(self._values)
        (np.cumsum(lengths, dtype=OFFSETS) + self._end).tofile(self._offsets)
        lengths.astype(LENGTHS).tofile(self._lengths)
        self._end += len(values)

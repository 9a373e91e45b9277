"""Arrays in files: mapped, for a pass over all of it, or read part by part, at random."""

import mmap
import os
from pathlib import Path
from weakref import finalize

import numpy as np


class Stored:
    """An array in a file, of which slices are read.

    What was read of a mapped file stays in the memory of the process, up to 2 MiB around it, until
    the system needs it for others. Nothing of this one does.
    """

    def __init__(self, path: Path, kind: np.dtype | str):
        self._kind = np.dtype(kind)
        self._size = self._kind.itemsize
        self._file = os.open(path, os.O_RDONLY)
        finalize(self, os.close, self._file)

    def __getitem__(self, part: slice | np.ndarray) -> np.ndarray:
        """A slice from one element to another, or the elements at some places."""
        file, size = self._file, self._size
        if isinstance(part, slice):
            data = os.pread(file, (part.stop - part.start) * size, part.start * size)
            return np.frombuffer(data, self._kind)
        places = (part.astype(np.int64) * size).ravel().tolist()
        data = b"".join([os.pread(file, size, place) for place in places])
        return np.frombuffer(data, self._kind).reshape(part.shape)

    def read_ahead(self, starts: np.ndarray, stops: np.ndarray) -> None:
        """Let the system read slices from disk, without waiting for it."""
        if hasattr(os, "posix_fadvise"):
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                at, count = start * self._size, (stop - start) * self._size
                os.posix_fadvise(self._file, at, count, os.POSIX_FADV_WILLNEED)


def stored(path: Path, kind: np.dtype | str) -> Stored | np.ndarray:
    """An array of which slices are read at random, mapped on a system that has no `pread`."""
    return Stored(path, kind) if hasattr(os, "pread") else mapped(path, kind)


def mapped(path: Path, kind: np.dtype | str) -> np.ndarray:
    """A file as a memory-mapped array; an empty file, which cannot be mapped, as an empty one."""
    if path.stat().st_size == 0:
        return np.empty(0, kind)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # A plain array: slicing numpy's memmap object is ten times slower.
    return np.ndarray(len(memory) // np.dtype(kind).itemsize, kind, memory)


def release(array: np.ndarray) -> None:
    """Take what was read of a mapped file out of memory; it is read again when needed."""
    if isinstance(array.base, mmap.mmap) and hasattr(array.base, "madvise"):
        array.base.madvise(mmap.MADV_DONTNEED)

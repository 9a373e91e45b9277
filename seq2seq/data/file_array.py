"""Arrays in files: mapped into memory, for a pass over all of it, or read slice by slice."""

import mmap
import os
from pathlib import Path
from weakref import finalize

import numpy as np


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

"""Rows of different lengths in files, such as the piece ids of sentences."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from seq2seq.data.file_array import FileArray, map_array

OFFSETS, LENGTHS = "<i8", "<i4"
WINDOW = 2**14  # offsets that are read from disk together: 128 KiB


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

"""Sources that begin with the sentences before them in their document.

"2 + 1" of Tiedemann and Scherrer 2017, W17-4811: the source is longer, the target is one sentence.
"""

from collections.abc import Sequence

import numpy as np

from seq2seq.data.corpus.blocks import KEPT
from seq2seq.data.corpus.ragged_array import RaggedArray


def count_preceding(outcomes: np.ndarray, pairs: Sequence[int]) -> np.ndarray:
    """The number of rows before each row in its document, (rows,). A document ends at a pair that
    is left out, because a side is empty or too long, and at the end of a component.

    Args:
        outcomes: (pairs,) outcome of each pair of the files, see `Corpus`.
        pairs: number of pairs of each component.
    """
    ends = outcomes != KEPT
    ends[np.cumsum([0, *pairs[:-1]])] = True
    document = np.cumsum(ends)[outcomes == KEPT]
    preceding: np.ndarray = np.arange(len(document)) - np.searchsorted(document, document)
    return preceding


class ContextArray:
    """Rows of ids that begin with up to `most` earlier rows, each followed by a separator.

    Args:
        rows: rows without context.
        preceding: (rows,) number of earlier rows that belong to the same document.
        most: maximum number of earlier rows.
        separator: id of the separator.
        max_pieces: maximum length; earlier rows that would exceed it are left out.

    Attributes:
        alone: rows without context.
        lengths: (rows,) int32, number of ids of each row, with its context.
        counts: (rows,) uint8, number of earlier rows that each row begins with.
    """

    def __init__(
        self, rows: RaggedArray, preceding: np.ndarray, most: int, separator: int, max_pieces: int
    ):
        self.alone, self._most, self._separator = rows, most, separator
        self.lengths = np.array(rows.lengths)
        self.counts = np.zeros(len(preceding), np.uint8)
        for n in range(1, min(most, len(preceding) - 1) + 1):
            longer = self.lengths[n:] + rows.lengths[:-n] + 1
            fits = (self.counts[n:] == n - 1) & (preceding[n:] >= n) & (longer <= max_pieces)
            self.lengths[n:][fits] = longer[fits]
            self.counts[n:] += fits

    def __getitem__(self, row: int) -> np.ndarray:
        """A row with its context."""
        last = self.alone[row]
        between = np.array([self._separator], last.dtype)
        earlier = (self.alone[i] for i in range(row - int(self.counts[row]), row))
        return np.concatenate([each for one in earlier for each in (one, between)] + [last])

    def read_ahead(self, rows: np.ndarray) -> None:
        """Ask the system to read rows from disk, with their context."""
        near = [rows - np.minimum(self.counts[rows], n) for n in range(self._most + 1)]
        self.alone.read_ahead(np.unique(np.concatenate(near)))

"""Shortlists: for each source piece, the target pieces that may translate it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.base.symbols import EOS


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The likeliest target pieces of each source piece, and those that may stand anywhere.

    The lists of a sentence are those of its own pieces, so they depend on no other sentence.

    Attributes:
        offsets: where the list of each of V source ids begins in `ids`, then that of the pieces
            that may stand anywhere, then their end, (V + 2,) int64.
        ids: of target pieces, ascending in each list, int32.
    """

    offsets: Tensor
    ids: Tensor

    @classmethod
    def of_pairs(cls, pairs: NDArray[Any], size: int) -> "Shortlist":
        """The lists of V = `size` source pieces. Pairs (n, 2) are of a source id, or V for what may
        stand anywhere, and a target id, in any order; one may be there twice.
        """
        once = np.unique(pairs, axis=0)
        offsets = np.searchsorted(once[:, 0], np.arange(size + 2))
        ids = once[:, 1].astype(np.int32)
        return cls(torch.from_numpy(offsets), torch.from_numpy(ids))

    @cached_property
    def _places(self) -> list[int]:
        """`offsets`; taking one of a tensor is slow."""
        return [*self.offsets.tolist()]

    def lists_of(self, sources: Iterable[int]) -> list[NDArray[Any]]:
        """The list of each source id; of V, the pieces that may stand anywhere."""
        places, ids = self._places, self.ids.numpy()
        return [ids[places[i] : places[i + 1]] for i in sources]

    def tokens(self, source: Iterable[int], more: Sequence[int] = ()) -> NDArray[Any]:
        """The tokens that the translation of a sentence may consist of: its lists, `more`, eos.

        Returns: (n,) int64, ascending.
        """
        lists = self.lists_of({*source, len(self._places) - 2})
        found = np.concatenate([*lists, np.array([EOS, *more], dtype=np.int32)])
        is_listed = np.zeros(found.max() + 1, dtype=bool)  # faster than sorting
        is_listed[found] = True
        return np.flatnonzero(is_listed)

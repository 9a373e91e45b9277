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
    """The likeliest target pieces of each source piece, and pieces allowed in every sentence.

    The lists of a sentence come from its own pieces, so they do not depend on other sentences.

    Attributes:
        offsets: start of each list in `ids`: one list for each of V source ids, then the list of
            pieces allowed in every sentence; last, the end of that list. (V + 2,) int64.
        ids: target ids, ascending in each list, int32.
    """

    offsets: Tensor
    ids: Tensor

    @classmethod
    def of_pairs(cls, pairs: NDArray[Any], size: int) -> "Shortlist":
        """The shortlist of V = `size` source pieces, from pairs (n, 2) of a source id and a target
        id, in any order, possibly repeated. Source id V allows a piece in every sentence.
        """
        once = np.unique(pairs, axis=0)
        offsets = np.searchsorted(once[:, 0], np.arange(size + 2))
        ids = once[:, 1].astype(np.int32)
        return cls(torch.from_numpy(offsets), torch.from_numpy(ids))

    @cached_property
    def _places(self) -> list[int]:
        """`offsets` as a list, since indexing a tensor is slow."""
        return [*self.offsets.tolist()]

    def lists_of(self, sources: Iterable[int]) -> list[NDArray[Any]]:
        """The list of each source id; id V gives the pieces allowed in every sentence."""
        places, ids = self._places, self.ids.numpy()
        return [ids[places[i] : places[i + 1]] for i in sources]

    def tokens(self, source: Iterable[int], more: Sequence[int] = ()) -> NDArray[Any]:
        """The tokens allowed in the translation of a sentence: its lists, `more` and eos.

        Returns: (n,) int64, ascending.
        """
        lists = self.lists_of({*source, len(self._places) - 2})
        found = np.concatenate([*lists, np.array([EOS, *more], dtype=np.int32)])
        is_listed = np.zeros(found.max() + 1, dtype=bool)  # faster than sorting
        is_listed[found] = True
        return np.flatnonzero(is_listed)

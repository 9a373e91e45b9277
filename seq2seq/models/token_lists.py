"""The tokens that each sentence of a batch may use: all others have probability 0 in its rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TokenLists:
    """The tokens of B sentences, which share nothing; nobody changes them.

    Attributes:
        ids: of each sentence, (B, W) int64, ascending, at least one, -1 after the last.
    """

    ids: NDArray[Any]

    @cached_property
    def lengths(self) -> NDArray[Any]:
        """The tokens of each sentence, (B,)."""
        lengths: NDArray[Any] = np.count_nonzero(self.ids >= 0, axis=1).astype(np.int64)
        return lengths

    def mask(self, logits: Tensor, sentences: Tensor) -> None:
        """Set to -inf, in rows (N, V) of these sentences (N,), all but their own tokens."""
        # The first of each sentence stands for -1.
        ids = torch.from_numpy(np.where(self.ids < 0, self.ids[:, :1], self.ids))
        listed = ids.to(logits.device)[sentences]
        values = logits.gather(1, listed)
        logits.fill_(-torch.inf).scatter_(1, listed, values)

"""Constraints for native searches: arrays of the tokens banned, allowed and required next."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.decoding.native.layout import address, structs

Array = NDArray[Any]


class NativeConstraints:
    """The constraints of N rows, stored for the rows that have any.

    Args:
        tokens: banned, allowed and required tokens, as in `CandidateRequest`.
        outputs: number of target tokens.

    Attributes:
        struct: the constraints as a structure of the native decoder.
    """

    def __init__(self, tokens: Iterable[Tensor | None], rows: int, outputs: int):
        banned, allowed, required = (None if x is None else x.numpy() for x in tokens)
        if required is None:
            required = np.zeros((rows, 0), dtype=np.int64)
        has_any = np.asarray((required >= 0).any(1))
        for pairs in (banned, allowed):
            if pairs is not None:
                has_any[pairs[:, 0]] = True
        count = int(np.count_nonzero(has_any))
        self.places = np.where(has_any, has_any.cumsum() - 1, -1)
        # A last row, at index -1, serves all rows without constraints.
        self.required = np.concatenate((required[has_any], np.full_like(required[:1], -1)))
        self.log_probs = np.full(self.required.shape, -np.inf, dtype=np.float32)
        self.banned = np.zeros((count, outputs), dtype=np.uint8)
        if allowed is not None:
            at = self.places[allowed[:, 0]]
            self.banned[np.unique(at)] = 1
            self.banned[at, allowed[:, 1]] = 0
        if banned is not None:
            self.banned[self.places[banned[:, 0]], banned[:, 1]] = 1
        self.struct = structs.Constraints(
            count=count,
            outputs=outputs,
            width=required.shape[1],
            **{name: address(array) for name, array in vars(self).items()},
        )

    def append_required(self, rows: Array, logp: Array, ids: Array) -> tuple[Array, Array]:
        """Append the tokens that rows require to their best tokens, (N', C)."""
        places = self.places[rows]
        required = self.log_probs[places], self.required[places].clip(0)
        return np.hstack((logp, required[0])), np.hstack((ids, required[1]))

"""The next tokens that a search may choose from: its request, and the answer of a model.

A request holds, as data, all that a search knows of the next tokens of each row: a prefix to
follow, a minimum length, repetitions that are banned, what its constraints ban, allow and require.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class CandidateRequest:
    """The candidates that the next choice of a search needs, for N = B * K rows.

    Attributes:
        count: C, candidates of each row; all tokens if there are fewer.
        forced: (N,) the token that a row must take, -1 = free; None = all are free.
        no_eos: (N,) bool: rows that may not end yet; None = all may.
        banned: (M, 2) pairs of a row and a token that it may not take.
        allowed: (M, 2) pairs of a row and a token: all that such a row may take.
        required: (N, R) tokens that are candidates whatever their rank, -1 = none. They come last,
            and have probability 0 there if they are among the first C too, or if the row may not
            take them.
    """

    count: int
    forced: Tensor | None = None
    no_eos: Tensor | None = None
    banned: Tensor | None = None
    allowed: Tensor | None = None
    required: Tensor | None = None

    def constrained_rows(self) -> Tensor | None:
        """Rows (M,) in which some token other than eos is not like all others; None = no row."""
        rows = [pairs[:, 0] for pairs in (self.banned, self.allowed) if pairs is not None]
        if self.forced is not None:
            rows.append((self.forced >= 0).nonzero()[:, 0])
        if self.required is not None:
            rows.append((self.required >= 0).any(1).nonzero()[:, 0])
        constrained = torch.cat(rows).unique() if rows else None
        return None if constrained is None or not len(constrained) else constrained

    def select_rows(self, rows: Tensor) -> "CandidateRequest":
        """The request for some of the rows, (N',) ascending."""

        def select(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[rows]

        def select_pairs(pairs: Tensor | None) -> Tensor | None:
            if pairs is None:
                return None
            pairs = pairs[torch.isin(pairs[:, 0], rows)]
            return torch.stack((torch.searchsorted(rows, pairs[:, 0].contiguous()), pairs[:, 1]), 1)

        return CandidateRequest(
            self.count,
            select(self.forced),
            select(self.no_eos),
            select_pairs(self.banned),
            select_pairs(self.allowed),
            select(self.required),
        )


class Candidates(NamedTuple):
    """Next tokens of each row: the best, best first, then those that were required."""

    logp: Tensor  # (N, C + R) log-probabilities, float32 at least
    ids: Tensor  # (N, C + R)

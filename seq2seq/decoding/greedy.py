"""Greedy search: the best token at each step."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from seq2seq.base.symbols import EOS
from seq2seq.decoding.search import Array, Search, SearchState, StepChoice


class IndependentBeams(SearchState):
    """Beams that are independent of each other: each takes one of its own candidates.

    A sentence is done when all of its beams have ended or are at their limit.

    Attributes:
        live: beams that have not ended, (B, K).
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.live = np.ones(self.tokens.shape[:2], dtype=bool)

    def choose(self, logp: Tensor, ids: Tensor) -> tuple[Array, Array]:
        """Choose a candidate for each row.

        Args:
            logp, ids: log-probabilities and ids of the candidates, best first, (N, C).

        Returns: log-probability and id of the chosen candidates, (N, 1) each.
        """
        raise NotImplementedError

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        values, tokens = (x.reshape(self.live.shape) for x in self.choose(logp, ids))
        self.grow()
        self.write(tokens, values)
        if self.guides.guided:
            self.guides.advance(None, tokens)
        over = (tokens == EOS) | (self.length >= self.limits)[:, None]
        ended = over & self.live
        if np.count_nonzero(ended):
            which = ended.nonzero()
            self.record(which[0], self.tokens[which], self.logp[which])
            self.live = self.live & ~ended
        done = np.count_nonzero(self.live, 1) == 0
        return StepChoice(None, self.to_tensor(tokens.ravel()), done)


class GreedyState(IndependentBeams):
    """One beam, which takes the best candidate."""

    def choose(self, logp: Tensor, ids: Tensor) -> tuple[Array, Array]:
        return logp.cpu().numpy()[:, :1], ids.cpu().numpy()[:, :1]


@dataclass(frozen=True, kw_only=True)
class Greedy(Search):
    """One beam per sentence, one candidate per step. The score is log-probability / length."""

    search_state = GreedyState
    beams = 1
    candidates = 1

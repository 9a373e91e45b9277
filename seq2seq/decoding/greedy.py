"""Greedy search: the best token at each step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2seq.decoding.search import Search, SearchState, StepChoice
from seq2seq.symbols import EOS


class IndependentBeams(SearchState):
    """Beams that are independent of each other: each takes one of its own candidates.

    A sentence is done when all of its beams have ended or are at their limit.

    Attributes:
        live: beams that have not ended, (B, K).
    """

    rows = (*SearchState.rows, "live")

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.live = torch.ones_like(self.tokens[..., 0], dtype=torch.bool)

    def choose(self, logp: Tensor) -> Tensor:
        """Which candidate each row takes: log-probabilities (N, C), best first -> (N, 1)."""
        raise NotImplementedError

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        choice = self.choose(logp)
        tokens, logp = (x.gather(1, choice).view_as(self.live) for x in (ids, logp.double()))
        self.grow()
        self.write(tokens, logp)
        self.guides.go_on(None, tokens)
        over = (tokens == EOS) | (self.length >= self.limits)[:, None]
        which = (over & self.live).nonzero(as_tuple=True)
        self.record(which[0], self.tokens[which], self.logp[which])
        self.live = self.live & ~over
        return StepChoice(None, tokens.flatten(), ~self.live.any(1))


class GreedyState(IndependentBeams):
    """One beam, which takes the best candidate."""

    def choose(self, logp: Tensor) -> Tensor:
        return torch.zeros_like(logp[:, :1], dtype=torch.int64)


@dataclass(frozen=True, kw_only=True)
class Greedy(Search):
    """One beam per sentence, one candidate per step. The score is log-probability / length.

    Args:
        length_ratio, length_extra, max_length, min_length_ratio, min_length_extra,
            no_repeat_ngram: see `Search`.
    """

    search_state = GreedyState
    beams = 1
    candidates = 1

"""Beam search: the K best prefixes of each sentence, one token longer at every step."""

import math
from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq.decoding.search import Advance, Frontier, Search
from seq2seq.symbols import EOS

# A piece that no hypothesis looks at counts as looked at so much: the logarithm of 0 is no score.
UNSEEN = torch.finfo(torch.float32).eps


class BeamFrontier(Frontier):
    """K lanes a sentence; `Beam` says what happens to them.

    Attributes:
        total: log-probability of each lane, (B, K); -inf of a lane that does not live.
        count: hypotheses finished, (B,).
        seen: how much each lane has looked at each source piece, eos included, (B, K, S); S = 0 if
            nobody asks.
    """

    rows = (*Frontier.rows, "total", "count", "seen")
    search: "Beam"

    def __init__(self, search: "Beam", source_lengths: Tensor, *arguments: Any):
        super().__init__(search, source_lengths, *arguments)
        self.total = torch.full_like(self.logp[..., 0], -torch.inf)
        self.total[:, :1] = 0.0
        self.count = torch.zeros_like(self.length)
        S = int(source_lengths.max()) + 1 if search.reads_weights and len(source_lengths) else 0
        self.seen = self.total.new_zeros(*self.total.shape, S)

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> Advance:
        (B, K), C = self.total.shape, logp.shape[1]
        if weights is not None:
            self._look(weights)
        self._grow()
        # -> (B, K * C): every continuation of every lane; then (B, 2K): the best of the sentence
        gains = logp.double().view(B, K, C)
        values, index = (self.total[:, :, None] + gains).flatten(1).topk(min(2 * K, K * C))
        lane = index // C
        token, gain = (x.reshape(B, K * C).gather(1, index) for x in (ids, gains))
        ended = (token == EOS) & (values != -torch.inf)
        finite = ended[:, :K] & values[:, :K].isfinite()
        self._end(finite, lane, gain)

        # -> (B, K): ranks of the best that go on; a stable sort puts them first, in order
        going = ended.to(torch.uint8).argsort(dim=1, stable=True)[:, :K]
        lane, token, gain, self.total = (x.gather(1, going) for x in (lane, token, gain, values))
        parents = (lane + K * torch.arange(B, device=lane.device)[:, None]).flatten()
        for name in ("tokens", "logp", "seen"):
            x: Tensor = getattr(self, name)
            setattr(self, name, x.flatten(0, 1).index_select(0, parents).view_as(x))
        self._write(token, gain)

        enough = self.count >= self.search.enough
        at_limit = ~enough & (self.length >= self.limits)
        # A dead lane is no result; NaN, of a model that diverged, is one.
        self._finish(at_limit[:, None] & (self.total != -torch.inf))
        return Advance(parents, token.flatten(), enough | at_limit)

    def _look(self, weights: Tensor) -> None:
        """Add what each lane looks at in this step, (L, N, H, 1, S), the mean of the heads."""
        looked = weights[self.search.coverage_layer, :, :, -1].double().mean(1)
        looked = looked.view(*self.total.shape, -1)
        S = min(looked.shape[-1], self.seen.shape[-1])  # both reach the longest source
        self.seen[..., :S] += looked[..., :S]

    def _end(self, ended: Tensor, lane: Tensor, gain: Tensor) -> None:
        """Record the candidates (B, K) that end here: the tokens of their lanes, and eos."""
        self.count = self.count + ended.sum(1)
        sentences, ranks = ended.nonzero(as_tuple=True)
        lanes, last = lane[sentences, ranks], (self.length[sentences] - 1)[:, None]
        tokens = self.tokens[sentences, lanes].scatter_(1, last, EOS)
        logp = self.logp[sentences, lanes].scatter_(1, last, gain[sentences, ranks, None])
        self._record(sentences, tokens, logp, self._covered(sentences, lanes))

    def _finish(self, which: Tensor) -> None:
        """Record these lanes (B, K) as they are."""
        sentences, lanes = which.nonzero(as_tuple=True)
        tokens, logp = self.tokens[sentences, lanes], self.logp[sentences, lanes]
        self._record(sentences, tokens, logp, self._covered(sentences, lanes))

    def _covered(self, sentences: Tensor, lanes: Tensor) -> Tensor | None:
        """The coverage of M lanes, (M,): 0 if each source piece was looked at at least once."""
        if not self.search.reads_weights:
            return None
        seen = self.seen[sentences, lanes]
        real = (
            torch.arange(seen.shape[1], device=seen.device) <= self.source_lengths[sentences, None]
        )
        return self.search.coverage * (seen.clamp(UNSEEN, 1).log() * real).sum(1)


class Beam(Search):
    """K lanes a sentence, and 2K candidates a step, so that K go on even if K of them end.

    1. At first only lane 0 lives. A candidate's value is its lane's log-probability plus its own;
       the 2K best of the sentence are looked at.
    2. An eos among the first K is a finished hypothesis of n tokens, eos included. Its score is
       log-probability / penalty(n), plus the coverage.
    3. The K best others go on.
    4. A sentence is done when patience * K hypotheses are finished (rounded up), or at its length
       limit: what lives then is finished as truncated.
    5. The best score wins; of equals, the one that finished first, then the one of better rank.

    Args:
        beam_size: K.
        length_penalty: exponent a; 0 favours short translations, 1 compares log-probabilities per
            token.
        penalty_form: penalty(n) is n^a (`power`), or ((5 + n) / 6)^a (`gnmt`, Wu et al. 2016).
        coverage: b. The score of a hypothesis that leaves source pieces s (eos is one) unread has
            b * sum_s log(min(sum_t weight_ts, 1)) more, with the cross-attention of step t, the
            mean of the heads (Wu et al. 2016). With 0, nobody asks for weights.
        coverage_layer: of which decoder layer; -1 = the last.
        patience: how many times K hypotheses must finish (Kasai et al. 2022); more than 1 searches
            longer, 0 stops at the first.
        length_ratio, length_extra, min_length_ratio, min_length_extra: see `Search`.
    """

    frontier = BeamFrontier

    def __init__(
        self,
        *,
        beam_size: int = 5,
        length_penalty: float = 1.0,
        penalty_form: Literal["power", "gnmt"] = "power",
        coverage: float = 0.0,
        coverage_layer: int = -1,
        patience: float = 1.0,
        length_ratio: float = 1.5,
        length_extra: int = 10,
        min_length_ratio: float = 0.0,
        min_length_extra: int = 0,
    ):
        super().__init__(
            beams=beam_size,
            candidates=2 * beam_size,
            length_ratio=length_ratio,
            length_extra=length_extra,
            min_length_ratio=min_length_ratio,
            min_length_extra=min_length_extra,
        )
        self.length_penalty, self.penalty_form = length_penalty, penalty_form
        self.coverage, self.coverage_layer = coverage, coverage_layer
        self.reads_weights = coverage > 0
        # Rounded before it is rounded up: 1.1 * 10 is a little more than 11 in binary.
        self.enough = max(1, math.ceil(round(patience * beam_size, 6)))

    def score(self, log_probability: float, n: int) -> float:
        base = n if self.penalty_form == "power" else (5 + n) / 6
        return log_probability / base**self.length_penalty

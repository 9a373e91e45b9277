"""Beam search: the K best prefixes of each sentence, one token longer at every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from seq2seq.decoding.guides import Guides, in_turns
from seq2seq.decoding.search import Search, SearchState, StepChoice
from seq2seq.symbols import EOS

# Floor of the summed attention to a source piece, so that its logarithm stays finite.
UNSEEN = torch.finfo(torch.float32).eps


class Selection(NamedTuple):
    """R continuations of each sentence: the 2K best, best first, then that of greedy search."""

    values: Tensor  # (B, R) log-probabilities, -inf for the continuation of a dead beam
    beams: Tensor  # (B, R) which is continued
    tokens: Tensor  # (B, R)
    gains: Tensor  # (B, R) log-probabilities of the tokens
    greedy: Tensor  # (B, R) bool: is it the output of greedy search?

    def at(self, places: Tensor) -> "Selection":
        """Some of them, (B, R') indices."""
        return Selection(*(x.gather(1, places) for x in self))

    @property
    def ended(self) -> Tensor:
        """Which of them end a hypothesis, (B, R)."""
        return (self.tokens == EOS) & (self.values != -torch.inf)

    def going(self, K: int) -> Tensor:
        """The places (B, K) of the K best that do not end. The last of them is replaced by the
        output of greedy search if that is not among them.
        """
        # A stable sort puts those that go on first, in order.
        going = self.ended[:, :-1].to(torch.uint8).argsort(dim=1, stable=True)[:, :K]
        goes_on = self.greedy & ~self.ended
        lost = goes_on[:, -1] & ~goes_on.gather(1, going).any(1)
        going[:, -1] = torch.where(lost, goes_on.shape[1] - 1, going[:, -1])
        return going


def select(
    total: Tensor,
    gains: Tensor,
    ids: Tensor,
    greedy: Tensor,
    guides: Guides | None = None,
    bias: Tensor | None = None,
) -> Selection:
    """The continuations of each sentence that a beam search considers.

    Args:
        total: log-probability of each beam, (B, K); -inf if it is not live.
        gains, ids: log-probabilities and tokens of its candidates, best first, (B, K, C).
        greedy: the beam that holds the output of greedy search, (B,); -1 if none does.
        guides: by whose progress beams are allocated; None = by value alone.
        bias: added to `gains` for the choice alone, that of greedy search too, (B, K, C).
    """
    K, C = gains.shape[1:]
    values = (total[:, :, None] + gains).flatten(1)
    first = greedy.clamp(min=0)[:, None] * C  # the best candidate of that beam
    ranks = values
    if bias is not None:
        ranks = values + bias.flatten(1)
        first = first + (gains + bias).argmax(2).gather(1, first // C)
    if guides:
        progress = guides.progress(ids, values.isfinite().view_as(ids)).flatten(1)
        best = in_turns(ranks, progress)[:, : 2 * K]
    else:
        best = ranks.topk(min(2 * K, K * C)).indices
    index = torch.cat((best, first), dim=1)
    values = values.gather(1, index)
    tokens, gains = ids.flatten(1).gather(1, index), gains.flatten(1).gather(1, index)
    is_greedy = (index == index[:, -1:]) & (greedy >= 0)[:, None] & values.isfinite()
    return Selection(values, index // C, tokens, gains, is_greedy)


class BeamState(SearchState):
    """K beams per sentence, advanced as `Beam` describes.

    Attributes:
        total: log-probability of each beam, (B, K); -inf if it is not live.
        count: finished hypotheses, (B,).
        best: the highest score of those, (B,); -inf if there is none.
        greedy: the beam that holds the output of greedy search, (B,); -1 once that has ended.
        seen: summed attention of each beam to each source piece, eos included, (B, K, S); S = 0
            without coverage.
        exponent, enough: the length penalty, and the finished hypotheses needed, (B,).
    """

    rows = (*SearchState.rows, *("total", "count", "best", "greedy", "seen", "exponent", "enough"))
    search: "Beam"

    def __init__(self, searches: Sequence[Search], source_lengths: Tensor, *arguments: Any):
        super().__init__(searches, source_lengths, *arguments)
        self.exponent = self.option("length_penalty")
        self.enough = self.option("enough", torch.int64)
        self.total = torch.full_like(self.logp[..., 0], -torch.inf)
        self.total[:, :1] = 0.0
        self.count = torch.zeros_like(self.length)
        self.best = torch.full_like(self.total[:, 0], -torch.inf)
        # No greedy search finds what is required, and it would not end without.
        none = [
            self.search.stopping == "count" or self.guides.requires(i) for i in range(len(searches))
        ]
        self.greedy = torch.tensor(none, device=self.count.device).to(torch.int64).neg()
        S = int(source_lengths.max()) + 1 if self.search.reads_weights else 0
        self.seen = self.total.new_zeros(*self.total.shape, S)

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        B, K = self.total.shape
        if weights is not None:
            self._look(weights)
        self.grow()
        gains, ids = logp.double().view(B, K, -1), ids.view(B, K, -1)
        selected = self._select(gains, ids)
        ended = selected.ended
        self._end(selected, ended)
        parents, tokens = self._go_on(selected, ended)
        decided = self._decided()
        at_limit = ~decided & (self.length >= self.limits)
        # A dead beam gives no result; NaN, from a model that diverged, does.
        beams = torch.arange(K, device=tokens.device).expand(B, K)
        self._finish(at_limit[:, None] & (self.total != -torch.inf), beams, self.total)
        return StepChoice(parents, tokens.flatten(), decided | at_limit)

    def _select(self, gains: Tensor, ids: Tensor) -> Selection:
        """Select from candidates, (B, K, C)."""
        return select(self.total, gains, ids, self.greedy, self.guides)

    def _end(self, selected: Selection, ended: Tensor) -> None:
        """Finish those of the first K, and the output of greedy search, that end here."""
        K = self.search.beams
        counts = torch.zeros_like(ended)
        counts[:, :K] = True
        counts[:, -1] = selected.greedy[:, -1] & ~selected.greedy[:, :K].any(1)
        finished = ended & counts & selected.values.isfinite()
        self._finish(finished, selected.beams, selected.values, selected.gains)
        self.count = self.count + finished.sum(1)

    def _go_on(self, selected: Selection, ended: Tensor) -> tuple[Tensor, Tensor]:
        """Continue the K best of the others. Returns: parent rows (N,), and tokens (B, K)."""
        B, K = self.total.shape
        going = selected.going(K)
        is_live, place = (selected.greedy & ~ended).gather(1, going).max(1)
        self.greedy = torch.where(is_live, place, -1)
        selected = selected.at(going)
        self.total = selected.values
        first = K * torch.arange(B, device=going.device)[:, None]
        parents = (selected.beams + first).flatten()
        for name in ("tokens", "logp", "seen"):
            x: Tensor = getattr(self, name)
            setattr(self, name, x.flatten(0, 1).index_select(0, parents).view_as(x))
        self.write(selected.tokens, selected.gains)
        self.guides.go_on(selected.beams, selected.tokens)
        return parents, selected.tokens

    def _decided(self) -> Tensor:
        """Sentences (B,) with enough finished hypotheses and, if `stopping` is `score`, no open one
        that can still win.
        """
        search = self.search
        enough = self.count >= self.enough
        if search.stopping == "count" or search.beam_size == 1:
            return enough
        # Log-probabilities only fall. If the highest ended next:
        longer = (self.length + 1).minimum(self.limits).double()
        beaten: Tensor = self.best >= self.total.amax(1) / search.penalty(longer, self.exponent)
        # Greedy search is followed to its end if it could still be the best.
        greedy = self.total.gather(1, self.greedy.clamp(min=0)[:, None]).squeeze(1)
        at_limit = greedy / search.penalty(self.limits.double(), self.exponent)
        beaten &= (self.greedy < 0) | (self.best >= at_limit)
        return enough & beaten

    def _look(self, weights: Tensor) -> None:
        """Add the attention of each beam in this step, (L, N, H, 1, S), averaged over heads."""
        looked = weights[self.search.coverage_layer, :, :, -1].double().mean(1)
        looked = looked.view(*self.total.shape, -1)
        S = min(looked.shape[-1], self.seen.shape[-1])  # both reach the longest source
        self.seen[..., :S] += looked[..., :S]

    def _finish(
        self, which: Tensor, beams: Tensor, totals: Tensor, last: Tensor | None = None
    ) -> None:
        """Record some hypotheses.

        Args:
            which: whether each hypothesis finishes, (B, R).
            beams: the beam that holds the tokens of each, (B, R).
            totals: log-probability of each, (B, R).
            last: log-probability of the eos that ends each, (B, R); None = they end without eos.
        """
        at = which.nonzero(as_tuple=True)
        sentences, beam = at[0], beams[at]
        if not len(sentences):
            return
        tokens, logp = self.tokens[sentences, beam], self.logp[sentences, beam]
        if last is not None:
            place = (self.length[sentences] - 1)[:, None]
            tokens.scatter_(1, place, EOS)
            logp.scatter_(1, place, last[at][:, None])
        lengths = self.length[sentences].double()
        scores = totals[at] / self.search.penalty(lengths, self.exponent[sentences])
        if self.search.reads_weights:
            scores = scores + self._coverage(sentences, beam)
        self.best = self.best.scatter_reduce(0, sentences, scores, "amax")
        self.record(sentences, tokens, logp, scores)

    def _coverage(self, sentences: Tensor, beams: Tensor) -> Tensor:
        """The coverage term in the scores of M hypotheses, (M,)."""
        seen, lengths = self.seen[sentences, beams], self.source_lengths[sentences, None]
        real = torch.arange(seen.shape[1], device=seen.device) <= lengths  # the last is eos
        return self.search.coverage * (seen.clamp(UNSEEN, 1).log() * real).sum(1)


@dataclass(frozen=True, kw_only=True)
class Beam(Search):
    """K beams per sentence and 2K candidates per step, so that K go on even if K of them end.

    1. At first only beam 0 is live. A candidate's value is the log-probability of its beam plus its
       own; the 2K best of the sentence are considered.
    2. An eos among the first K gives a finished hypothesis of n tokens, eos included. Its score is
       log-probability / penalty(n), plus the coverage.
    3. The K best others go on; the last of them is replaced by the output of greedy search if that
       is not among them. So no translation scores lower than that of greedy search, if greedy
       search ends.
    4. A sentence is done when patience * K hypotheses (rounded up) are finished and no open one
       can still win, or at its length limit, where live hypotheses finish as truncated. An open
       hypothesis can win if its score would be the best with an eos of probability 1 next; that of
       greedy search, if it would be with any number of tokens of probability 1. Without a length
       penalty this is exact, since log-probabilities only fall. A beam of one stops at its first
       eos: it is greedy search.
    5. The best score wins; of equal scores, the one that finished first, then the better rank.
       Truncated hypotheses come after all that ended.

    Args:
        beam_size: K.
        length_penalty: exponent a; 0 favours short translations, 1 compares log-probabilities per
            token.
        penalty_form: penalty(n) is n^a (`power`), or ((5 + n) / 6)^a (`gnmt`, Wu et al. 2016).
        coverage: b. Adds b * sum_s log(min(sum_t weight_ts, 1)) over source pieces s (eos is one)
            to a score, with the cross-attention weights of step t, averaged over heads (Wu et al.
            2016). With 0, no weights are computed.
        coverage_layer: the decoder layer of these weights; -1 = the last.
        patience: patience * K hypotheses must finish (Kasai et al. 2022, arXiv:2204.05424); more
            than 1 searches longer.
        stopping: `score` as in 3 and 4, or `count`: as soon as patience * K are finished, whatever
            is open, and without a beam for greedy search. Where eos is probable, that misses longer
            translations that are better.
        length_ratio, length_extra, max_length, min_length_ratio, min_length_extra,
            no_repeat_ngram: see `Search`.
    """

    search_state: ClassVar[type[SearchState]] = BeamState
    of_sentence = (*Search.of_sentence, "length_penalty", "patience")

    beam_size: int = 5
    length_penalty: float = 1.0
    penalty_form: Literal["power", "gnmt"] = "power"
    coverage: float = 0.0
    coverage_layer: int = -1
    patience: float = 1.0
    stopping: Literal["score", "count"] = "score"

    ranges = {
        **Search.ranges,
        "beam_size": (1, 1000),
        "length_penalty": (0, 10),
        "coverage": (0, 100),
        "patience": (0, 100),
    }

    @property
    def beams(self) -> int:
        return self.beam_size

    @property
    def candidates(self) -> int:
        return 2 * self.beam_size

    @property
    def reads_weights(self) -> bool:
        return self.coverage > 0

    @property
    def enough(self) -> int:
        """Finished hypotheses that a sentence needs to be done."""
        return max(1, math.ceil(self.patience * self.beam_size))

    def penalty(self, n: Any, exponent: Any = None) -> Any:
        """The divisor of the log-probability of n tokens, eos included.

        Args:
            n, exponent: numbers or tensors; an exponent of None is `length_penalty`.
        """
        base = n if self.penalty_form == "power" else (5 + n) / 6
        return base ** (self.length_penalty if exponent is None else exponent)

"""Beam search: keep the K best prefixes of each translation, and extend them token by token."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.decoding.constraints.guide import Guides
from seq2seq.decoding.options import BeamOptions
from seq2seq.decoding.search import Array, Search, SearchState, StepChoice

# Floor of the summed attention to a source piece, so that its logarithm stays finite.
MIN_COVERAGE = float(np.finfo(np.float32).eps)


Numbers = TypeVar("Numbers", Array, Tensor)


class Continuations(NamedTuple, Generic[Numbers]):
    """R candidate continuations of each sentence: the 2K best in order, then greedy search's."""

    values: Numbers  # (B, R) log-probabilities, -inf for the continuation of a dead beam
    beams: Numbers  # (B, R) the beam that is continued
    tokens: Numbers  # (B, R)
    gains: Numbers  # (B, R) log-probabilities of the tokens
    greedy: Numbers  # (B, R) bool: True if it is the output of greedy search
    ended: Numbers  # (B, R) bool: True if it ends a hypothesis


def best_open(selected: Continuations[Array], K: int) -> Continuations[Array]:
    """The K best open continuations, (B, K). If the output of greedy search is not among them, it
    replaces the last one.
    """
    # A stable sort puts open continuations first, in order.
    places = selected.ended[:, :-1].argsort(axis=1, kind="stable")[:, :K]
    is_open = selected.greedy & ~selected.ended
    rows = np.arange(len(places))[:, None]
    lost = is_open[:, -1] & ~is_open[rows, places].any(1)
    places[lost, -1] = is_open.shape[1] - 1
    return Continuations(*(x[rows, places] for x in selected))


def top_places(x: Array, count: int) -> Array:
    """Indices (B, count) of the largest values of each row (B, M), descending; NaN is largest."""
    # Reversed twice, so that of equal values the first stays first.
    order = x[:, ::-1].argsort(axis=1, kind="stable")[:, ::-1]
    places: Array = x.shape[1] - 1 - order[:, :count]
    return places


def round_robin_order(values: Tensor, progress: Tensor) -> Tensor:
    """Order continuations so that levels of progress take turns: the best of each level, most
    progress first, then the second best of each level, and so on.

    This is dynamic beam allocation (Post and Vilar 2018, arXiv:1804.06609): the levels get equal
    shares of the beams, as far as they have hypotheses. If all progress is equal, continuations are
    ordered by value.

    Args:
        values: log-probabilities, (B, M).
        progress: progress of each continuation, (B, M).

    Returns: indices, (B, M).
    """
    order = values.argsort(dim=1, descending=True, stable=True)
    p = progress.gather(1, order)
    p = torch.where(values.gather(1, order) == -torch.inf, -1, p)  # impossible ones come last
    by_progress = p.argsort(dim=1, stable=True)
    sorted_p = p.gather(1, by_progress)
    place = torch.arange(p.shape[1], device=p.device).expand_as(p)
    first = place.where(sorted_p != sorted_p.roll(1, 1), 0).cummax(1).values
    turn = torch.empty_like(p).scatter_(1, by_progress, place - first)
    turn = torch.where(p < 0, values.shape[1], turn)
    key = turn * (int(p.max()) + 2) - p
    return order.gather(1, key.argsort(dim=1, stable=True))


def select_continuations(
    total: Array,
    gains: Array,
    ids: Array,
    greedy: Array,
    guides: Guides | None = None,
    bias: Array | None = None,
) -> Continuations[Array]:
    """The continuations of each sentence that a beam search considers.

    Args:
        total: log-probability of each beam, (B, K); -inf if it is not live.
        gains, ids: log-probabilities and tokens of its candidates, best first, (B, K, C).
        greedy: the beam that holds the output of greedy search, (B,); -1 if none does.
        guides: guides whose progress allocates the beams; None = by value alone.
        bias: term added to `gains` for the choice only, also in greedy search, (B, K, C).
    """
    B, K, C = gains.shape
    values = (total[:, :, None] + gains).reshape(B, K * C)
    beam = np.maximum(greedy, 0)
    first = beam * C  # the best candidate of that beam
    ranks = values
    if bias is not None:
        ranks = values + bias.reshape(B, K * C)
        first = first + (gains + bias)[np.arange(B), beam].argmax(1)
    if guides and guides.guided:
        progress = guides.progress(ids, np.isfinite(values).reshape(ids.shape)).reshape(B, K * C)
        order = round_robin_order(torch.from_numpy(ranks), torch.from_numpy(progress))
        best = order[:, : 2 * K].numpy()
    else:
        best = top_places(ranks, min(2 * K, K * C))
    index, rows = np.concatenate((best, first[:, None]), axis=1), np.arange(B)[:, None]
    values, tokens = values[rows, index], ids.reshape(B, K * C)[rows, index]
    is_greedy = (index == first[:, None]) & (greedy >= 0)[:, None] & np.isfinite(values)
    ended = (tokens == EOS) & (values != -np.inf)
    gains = gains.reshape(B, K * C)[rows, index]
    return Continuations(values, index // C, tokens, gains, is_greedy, ended)


class BeamState(SearchState):
    """K beams per sentence, advanced as `Beam` describes.

    Attributes:
        total: log-probability of each beam, (B, K); -inf if it is not live.
        count: finished hypotheses, (B,).
        best: highest score of the finished hypotheses, (B,); -inf before the first.
        greedy: beam that holds the output of greedy search, (B,); -1 once that has ended.
        coverage: summed attention of each beam to each source piece, eos included, (B, K, S); S = 0
            if the search does not need it.
        exponent: exponent of the length penalty, (B,).
        max_finished: number of finished hypotheses after which no more are needed, (B,).
    """

    search: "Beam"

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.exponent = self.option_values("length_penalty")
        self.max_finished = self.option_values("max_finished", np.int64)
        B, K = self.tokens.shape[:2]
        self.total = np.full((B, K), -np.inf)
        self.total[:, :1] = 0.0
        self.count = np.zeros_like(self.length)
        self.best = np.full(B, -np.inf)
        # Greedy search does not find required phrases, and could not end without them.
        self.greedy = np.zeros(B, dtype=np.int64) - (self.search.stopping == "count")
        self.greedy[[i for i, (guide, _) in self.guides.guided.items() if guide.requires]] = -1
        S = int(self.source_lengths.max()) + 1 if self.search.reads_weights else 0
        self.coverage = np.zeros((B, K, S))

    def first_tokens(self) -> Tensor:
        return self.to_tensor(np.where(self.total > -np.inf, BOS, PAD).ravel())

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        B, K = self.total.shape
        if weights is not None:
            self._add_attention(weights)
        self.grow()
        gains = logp.cpu().numpy().astype(np.float64).reshape(B, K, -1)
        selected = self._select(gains, ids.cpu().numpy().reshape(B, K, -1))
        self._finish_ended(selected)
        parents, tokens = self._continue(best_open(selected, K))
        decided = self._find_decided()
        at_limit = ~decided & (self.length >= self.limits)
        if np.count_nonzero(at_limit):
            # Dead beams give no result, but beams with a score of NaN, from a diverged model, do.
            beams = np.broadcast_to(np.arange(K), (B, K))
            self._finish(at_limit[:, None] & (self.total != -np.inf), beams, self.total)
        return StepChoice(parents, self.to_tensor(tokens.ravel()), decided | at_limit)

    def _select(self, gains: Array, ids: Array) -> Continuations[Array]:
        """Select continuations from candidates, (B, K, C)."""
        return select_continuations(self.total, gains, ids, self.greedy, self.guides)

    def _finish_ended(self, selected: Continuations[Array]) -> None:
        """Finish continuations that end here: the first K, and the output of greedy search."""
        if not np.count_nonzero(selected.ended):
            return
        K = self.search.beams
        finished = selected.ended & np.isfinite(selected.values)
        finished[:, K:-1] = False
        finished[:, -1] &= selected.greedy[:, -1] & ~selected.greedy[:, :K].any(1)
        self._finish(finished, selected.beams, selected.values, selected.gains)
        self.count = self.count + finished.sum(1)

    def _continue(self, selected: Continuations[Array]) -> tuple[Tensor | None, Array]:
        """Continue K open hypotheses. Returns: parent rows (N,), None = each row itself, and tokens
        (B, K).
        """
        B, K = self.total.shape
        is_greedy = selected.greedy & ~selected.ended
        self.greedy = np.where(is_greedy.any(1), is_greedy.argmax(1), -1)
        self.total = selected.values
        parents = None
        if np.count_nonzero(selected.beams != np.arange(K)):
            rows = np.arange(B)[:, None]
            for name in ("tokens", "logp", "coverage"):
                setattr(self, name, getattr(self, name)[rows, selected.beams])
            parents = self.to_tensor((selected.beams + K * rows).ravel())
        self.write(selected.tokens, selected.gains)
        if self.guides.guided:
            self.guides.advance(selected.beams, selected.tokens)
        # As in the first step, dead beams read pad.
        return parents, np.where(self.total == -np.inf, PAD, selected.tokens)

    def _find_decided(self) -> Array:
        """Sentences (B,) with enough finished hypotheses and, if `stopping` is `score`, no open one
        that can still win.
        """
        search = self.search
        enough = self.count >= self.max_finished
        if search.stopping == "count" or search.beam_size == 1 or not np.count_nonzero(enough):
            return enough
        # Log-probabilities only fall. The best possible score of a hypothesis that ends next:
        longer = np.minimum(self.length + 1, self.limits).astype(np.float64)
        beaten: Array = self.best >= self.total.max(1) / search.penalty(longer, self.exponent)
        # Greedy search is followed to its end if it could still be the best.
        greedy = self.total[np.arange(len(enough)), np.maximum(self.greedy, 0)]
        at_limit = greedy / search.penalty(self.limits.astype(np.float64), self.exponent)
        beaten &= (self.greedy < 0) | (self.best >= at_limit)
        return enough & beaten

    def _add_attention(self, weights: Tensor) -> None:
        """Add the attention of each beam in this step, (L, N, H, 1, S), averaged over heads."""
        attention = weights[self.search.coverage_layer, :, :, -1].double().mean(1).cpu().numpy()
        attention = attention.reshape(*self.total.shape, -1)
        S = min(attention.shape[-1], self.coverage.shape[-1])  # both reach the longest source
        self.coverage[..., :S] += attention[..., :S]

    def _finish(self, which: Array, beams: Array, totals: Array, last: Array | None = None) -> None:
        """Record the hypotheses that finish.

        Args:
            which: True for hypotheses that finish, bool, (B, R).
            beams: beam that holds the tokens of each hypothesis, (B, R).
            totals: log-probability of each hypothesis, (B, R).
            last: log-probability of the final eos, (B, R); None = they end without eos.
        """
        if not np.count_nonzero(which):
            return
        at = which.nonzero()
        sentences, beam = at[0], beams[at]
        tokens, logp = self.tokens[sentences, beam], self.logp[sentences, beam]
        if last is not None:
            place = np.arange(len(sentences)), self.length[sentences] - 1
            tokens[place], logp[place] = EOS, last[at]
        lengths = self.length[sentences].astype(np.float64)
        scores = totals[at] / self.search.penalty(lengths, self.exponent[sentences])
        if self.search.reads_weights:
            scores = scores + self._coverage_scores(sentences, beam)
        with np.errstate(invalid="ignore"):  # NaN, from a model that diverged
            np.maximum.at(self.best, sentences, scores)
        self.record(sentences, tokens, logp, scores)

    def _coverage_scores(self, sentences: Array, beams: Array) -> Array:
        """The coverage term in the scores of M hypotheses, (M,)."""
        coverage, lengths = self.coverage[sentences, beams], self.source_lengths[sentences, None]
        real = np.arange(coverage.shape[1]) <= lengths  # the last is eos
        of_pieces: Array = np.log(coverage.clip(MIN_COVERAGE, 1)) * real
        scores: Array = self.search.coverage * of_pieces.sum(1)
        return scores


@dataclass(frozen=True, kw_only=True)
class Beam(BeamOptions, Search):
    """Beam search with K beams per sentence. Each step considers 2K candidates, so that K remain
    even if K of them end.

    1. At first only beam 0 is live. A candidate's value is the log-probability of its beam plus its
       own; the 2K best of the sentence are considered.
    2. An eos among the first K gives a finished hypothesis of n tokens, eos included. Its score is
       log-probability / penalty(n), plus the coverage.
    3. The K best other candidates continue. If the output of greedy search is not among them, it
       replaces the last one. Therefore no translation scores lower than the output of greedy
       search, if greedy search ends.
    4. A sentence is done when patience * K hypotheses (rounded up) are finished and no open one
       can still win, or at its length limit, where live hypotheses finish as truncated. An open
       hypothesis can win if its score would be the best with an eos of probability 1 next; the
       output of greedy search, if it would be the best after any number of tokens of probability 1.
       Without a length penalty this is exact, since log-probabilities only fall. A beam of one
       stops at its first eos: it is greedy search.
    5. The best score wins; of equal scores, the one that finished first, then the better rank.
       Truncated hypotheses come after all that ended.

    With K = `beam_size`, penalty(n) = n^a (`power`) or ((5 + n) / 6)^a (`gnmt`, Wu et al. 2016) for
    the `length_penalty` a, and b = `coverage`, which adds b * sum_s log(min(sum_t weight_ts, 1))
    over source pieces s (eos is one) to a score, with the cross-attention weights of step t,
    averaged over heads (Wu et al. 2016). `patience`: Kasai et al. 2022, arXiv:2204.05424. With
    `stopping="count"`, a sentence is done as soon as patience * K hypotheses are finished, even if
    an open one could still win, and no beam is kept for greedy search. If eos is probable early,
    this misses longer and better translations.
    """

    search_state: ClassVar[type[SearchState]] = BeamState
    of_sentence = (*Search.of_sentence, "length_penalty", "patience")

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
    def max_finished(self) -> int:
        """The number of finished hypotheses after which a sentence needs no more."""
        return max(1, math.ceil(self.patience * self.beam_size))

    def penalty(self, n: Any, exponent: Any = None) -> Any:
        """The number that the log-probability of n tokens, including eos, is divided by.

        Args:
            n, exponent: numbers or arrays; exponent None = `length_penalty`.
        """
        base = n if self.penalty_form == "power" else (5 + n) / 6
        return base ** (self.length_penalty if exponent is None else exponent)

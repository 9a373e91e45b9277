"""Searches whose state is in buffers: the same choices as those of `SearchState`, as tensor code of
constant sizes that works in place.

Sentences that are done are frozen: further steps change nothing that is read of them. What was
chosen is kept by steps, with the beam that each choice continues, and put together at the end.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.symbols import EOS, PAD
from seq2seq.decoding.device.buffers import Buffers, Size, Spec
from seq2seq.decoding.sample import SHAPES, Sample, draw_candidates
from seq2seq.decoding.search import FREE, Array, Hypothesis, Search, SearchState, completes_ngram
from seq2seq.models.candidates import CandidateRequest, Candidates


class SlotSearch:
    """The base of searches in buffers.

    Args:
        search: kind of search.
        buffers: buffers, in which those of the search are declared.
    """

    groups = 1  # independent searches of each sentence, G
    kept: tuple[str, ...]  # buffers that `results` reads

    def __init__(self, search: Search, buffers: Buffers) -> None:
        self.search, self.buffers, self.beams = search, buffers, search.beams
        K = self.beams
        buffers.declare(
            position=Spec((), torch.long),  # tokens that each hypothesis has
            tokens=Spec((K,), torch.long, PAD),  # that the next step reads
            done=Spec((), torch.bool, True),
            limits=Spec((), torch.long, 1),
            min_lengths=Spec((), torch.long),
            prefixes=Spec(("L",), torch.long, FREE),
            listed=Spec(("W",), torch.long, FREE),
            no_repeat_ngram=Spec((), torch.long),
            said=Spec((K, "T+1"), torch.long),  # the tokens of each open hypothesis
        )

    def size_for(self, state: SearchState) -> Size:
        """The size class that the sentences of a state need on its account."""
        longest = max(int(state.limits.max()), state.prefixes.shape[1])
        return Size(
            limit=longest,
            listed=state.listed.shape[1],
            forced=int(state.prefixes.shape[1] > 1),
            minimum=int(state.min_lengths.max() > 1),
            ngram=int(state.no_repeat_ngram.max()),
        )

    def first_values(self, state: SearchState) -> dict[str, Array]:
        """The values of the buffers for n sentences that start, (n, ...): arrays of the state with
        the same names, by groups if the buffers have that axis, and others.
        """
        n = len(state.limits) // self.groups
        tokens = state.first_tokens().cpu().numpy().reshape(n, -1)
        values: dict[str, Array] = {"done": np.zeros(n, dtype=bool), "tokens": tokens}
        for name, array in state.arrays():
            if name in self.buffers.specs and name not in values:
                by_group = array.reshape(n, self.groups, *array.shape[1:])
                has_groups = len(self.buffers.specs[name].shape) == array.ndim
                values[name] = by_group if has_groups else by_group[:, 0]
        return values

    def per_row(self, x: Tensor) -> Tensor:
        """Values of sentences (B, ...) repeated for each of their rows, (N, ...)."""
        return x.repeat_interleave(self.beams, dim=0)

    def request(self, size: Size) -> CandidateRequest:
        """The candidates that the next `advance` needs."""
        buffers, position = self.buffers, self.buffers["position"]
        forced = no_eos = listed = barred = None
        if size.forced:
            place = position.clamp(max=size.limit - 1)[:, None]
            forced = self.per_row(buffers["prefixes"].gather(1, place)[:, 0])
        if size.minimum:
            no_eos = self.per_row(position + 1 < buffers["min_lengths"])
        if size.listed:
            listed = self.per_row(buffers["listed"])
        if size.ngram:
            said = buffers.rows("said")
            sizes = self.per_row(buffers["no_repeat_ngram"])
            again = completes_ngram(said, self.per_row(position), sizes, size.ngram)
            barred = torch.where(again, said, PAD)
        count = self.search.candidates
        return CandidateRequest(count, forced, no_eos, listed=listed, barred=barred)

    def advance(self, candidates: Candidates) -> Tensor | None:
        """Choose the next tokens. Returns: parent rows (N,); None = each row itself."""
        raise NotImplementedError

    def write(
        self, tokens: Tensor, history: dict[str, Tensor], parents: Tensor | None = None
    ) -> None:
        """Keep the choices of a step, and count it.

        Args:
            tokens: the next token of each row, (B, K).
            history: values for buffers of steps, (B, T + 1, n), in this step: (B, n). Sentences
                that are done write into the last column, which nobody reads.
            parents: parent rows (N,); None = each row itself.
        """
        buffers, said = self.buffers, self.buffers.rows("said")
        position, done = buffers["position"], buffers["done"]
        column = torch.where(done, said.shape[1] - 1, position)
        for name, x in history.items():
            index = column[:, None, None].expand(-1, 1, x.shape[1])
            buffers[name].scatter_(1, index, x[:, None])
        if parents is not None:
            said.copy_(said.index_select(0, parents))
        said.scatter_(1, self.per_row(column)[:, None], tokens.view(-1, 1))
        position.add_(~done)

    def results(
        self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of n sentences that are done, best first.

        Args:
            states: the state that each sentence started with, and its index there.
            held: the buffers `kept` of these sentences, (n, ...).
        """
        G = self.groups
        units, *hypotheses = self.collect(states, held)
        borders = np.searchsorted(units, np.arange(len(states) * G + 1)).tolist()
        for unit, (first, end) in enumerate(pairwise(borders)):
            state, index = states[unit // G]
            places = np.full(end - first, index * G + unit % G)
            state.record(places, *(x[first:end] for x in hypotheses))
        return [state.results([index])[0] for state, index in states]

    def collect(
        self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]
    ) -> tuple[Array, Array, Array, Array, Array]:
        """All M hypotheses of these sentences, those of a unit (a sentence, or a group of its
        beams) in the order in which they finished.

        Returns: their units (M,); tokens and log-probabilities (M, T); scores and lengths (M,).
        """
        raise NotImplementedError


class SlotBeams(SlotSearch):
    """Beams that are independent of each other: greedy search and sampling.

    Buffers: live (B, K), beams that have not ended; chosen and gains, the tokens of each step and
    their log-probabilities; the options of `Sample`.
    """

    kept = ("chosen", "gains")

    def __init__(self, search: Search, buffers: Buffers) -> None:
        super().__init__(search, buffers)
        self.samples = isinstance(search, Sample)
        buffers.declare(
            live=Spec((self.beams,), torch.bool),
            chosen=Spec(("T+1", self.beams), torch.long),
            gains=Spec(("T+1", self.beams), torch.double),
        )
        if self.samples:
            buffers.declare(**{name: Spec((), torch.double, 1) for name in SHAPES})
            buffers.declare(seed=Spec((), torch.long), draw_ids=Spec((), torch.long))

    def advance(self, candidates: Candidates) -> None:
        buffers, (logp, ids) = self.buffers, candidates
        position, done = buffers["position"], buffers["done"]
        if self.samples:
            options = [self.per_row(buffers[name])[:, None] for name in SHAPES]
            counters = (buffers["seed"], buffers["draw_ids"], position)
            choice = draw_candidates(logp, options, self.beams, *counters)
            logp, ids = logp.gather(1, choice), ids.gather(1, choice)
        tokens = ids[:, 0].view(-1, self.beams)
        ended = (tokens == EOS) | (position + 1 >= buffers["limits"])[:, None]
        gains = logp[:, 0].double().view(-1, self.beams)
        self.write(tokens, {"chosen": tokens, "gains": gains})
        buffers["live"].logical_and_(~ended)
        done.logical_or_(~buffers["live"].any(1))
        buffers["tokens"].copy_(tokens)

    def collect(
        self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]
    ) -> tuple[Array, Array, Array, Array, Array]:
        tokens, logp = (held[name].swapaxes(1, 2) for name in self.kept)  # (n, K, T + 1)
        limits = np.array([state.limits[index] for state, index in states])[:, None]
        before_end = np.logical_and.accumulate(tokens != EOS, axis=2).sum(2)
        lengths = np.minimum(before_end + 1, limits)
        order = lengths.argsort(axis=1, kind="stable")
        unit = np.arange(len(tokens))[:, None]
        at = (unit + np.zeros_like(order)).ravel(), order.ravel()
        lengths = lengths[at]
        totals = logp[at].cumsum(1)[np.arange(len(lengths)), lengths - 1]
        return at[0], tokens[at], logp[at], totals / lengths, lengths

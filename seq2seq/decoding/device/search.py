"""Searches whose state is in buffers: the same choices as those of `SearchState`, as tensor code of
constant sizes that works in place.

Sentences that are done are frozen: further steps change nothing that is read of them. What was
chosen is kept by steps, with the beam that each choice continues, and put together at the end.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.base.symbols import EOS, PAD
from seq2seq.decoding.beam import Beam, BeamState
from seq2seq.decoding.device.buffers import Buffers, Size, Spec
from seq2seq.decoding.diverse import DiverseBeam, DiverseState, count_among
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.sample import Sample, draw
from seq2seq.decoding.search import FREE, Search, SearchState, completes_ngram
from seq2seq.models.candidates import CandidateRequest, Candidates

Array = NDArray[Any]


class Chosen(NamedTuple):
    """The hypotheses of sentences that are done, M in all."""

    sentences: Array  # (M,) the unit (sentence or group of beams) of each
    tokens: Array  # (M, T)
    logp: Array  # (M, T)
    lengths: Array  # (M,)
    scores: Array | None  # (M,); None = log-probability / length


class SlotSearch:
    """The base of searches in buffers.

    Args:
        search: kind of search.
        buffers: buffers, in which those of the search are declared.
    """

    groups = 1  # independent searches of each sentence, G
    kept: tuple[str, ...] = ("chosen", "gains")  # buffers that `results` reads

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
            # Sentences that are done write into the last column, which nobody reads.
            chosen=Spec(("T+1", K), torch.long),
            gains=Spec(("T+1", K), torch.double),
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
        """The values of the buffers for n sentences that start, (n, ...)."""
        n = len(state.limits) // self.groups
        values: dict[str, Array] = {"done": np.zeros(n, dtype=bool)}
        values["tokens"] = state.first_tokens().cpu().numpy().reshape(n, -1)
        for name in ("limits", "min_lengths", "prefixes", "listed", "no_repeat_ngram"):
            values[name] = getattr(state, name)[:: self.groups]
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
            ids = buffers["listed"]
            listed = self.per_row(torch.where(ids < 0, ids[:, :1].clamp(min=0), ids))
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

    def write(self, values: dict[str, Tensor], parents: Tensor | None = None) -> None:
        """Keep the choices of a step, and count it.

        Args:
            values: by buffer, (B, K) each.
            parents: parent rows (N,); None = each row itself.
        """
        column = self.write_column(values)
        said = self.buffers.rows("said")
        if parents is not None:
            said.copy_(said.index_select(0, parents))
        said.scatter_(1, self.per_row(column)[:, None], values["chosen"].view(-1, 1))
        self.buffers["position"].add_(~self.buffers["done"])

    def write_column(self, values: dict[str, Tensor]) -> Tensor:
        """Write to buffers of steps, (B, T + 1, n), what belongs to this step, (B, n).

        Returns: the column of each sentence, (B,).
        """
        last = self.buffers["chosen"].shape[1] - 1
        column = torch.where(self.buffers["done"], last, self.buffers["position"])
        for name, x in values.items():
            index = column[:, None, None].expand(-1, 1, x.shape[1])
            self.buffers[name].scatter_(1, index, x[:, None])
        return column

    def results(self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]) -> Any:
        """The hypotheses of n sentences that are done, best first.

        Args:
            states: the state that each sentence started with, and its index there.
            held: the buffers `kept` of these sentences, (n, ...).
        """
        chosen, G = self.collect(states, held), self.groups
        results = []
        for i, (state, index) in enumerate(states):
            for group in range(G):
                mine = chosen.sentences == i * G + group
                state.record(
                    np.full(np.count_nonzero(mine), index * G + group),
                    chosen.tokens[mine],
                    chosen.logp[mine],
                    None if chosen.scores is None else chosen.scores[mine],
                    chosen.lengths[mine],
                )
            results += state.results([index])
        return results

    def collect(self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]) -> Chosen:
        """The hypotheses of these sentences, each unit's in the order in which they finished."""
        raise NotImplementedError


class SlotBeams(SlotSearch):
    """Beams that are independent of each other: greedy search and sampling.

    Buffers: live (B, K), beams that have not ended; the options of `Sample`.
    """

    options = ("temperature", "top_p", "epsilon", "min_p")

    def __init__(self, search: Search, buffers: Buffers) -> None:
        super().__init__(search, buffers)
        self.samples = isinstance(search, Sample)
        buffers.declare(live=Spec((self.beams,), torch.bool))
        if self.samples:
            buffers.declare(**{name: Spec((), torch.double, 1) for name in self.options})
            buffers.declare(seed=Spec((), torch.long), draw_ids=Spec((), torch.long))

    def first_values(self, state: SearchState) -> dict[str, Array]:
        values = super().first_values(state)
        values["live"] = np.ones((len(state.limits), self.beams), dtype=bool)
        for name in (*self.options, "seed", "draw_ids") if self.samples else ():
            values[name] = getattr(state, name)
        return values

    def advance(self, candidates: Candidates) -> None:
        buffers, (logp, ids) = self.buffers, candidates
        position, done = buffers["position"], buffers["done"]
        if self.samples:
            options = [self.per_row(buffers[name])[:, None] for name in self.options]
            counters = (buffers["seed"], buffers["draw_ids"], position)
            choice = draw(logp, options, self.beams, *counters)
            logp, ids = logp.gather(1, choice), ids.gather(1, choice)
        tokens = ids[:, 0].view(-1, self.beams)
        ended = (tokens == EOS) | (position + 1 >= buffers["limits"])[:, None]
        self.write({"chosen": tokens, "gains": logp[:, 0].double().view(-1, self.beams)})
        buffers["live"].logical_and_(~ended)
        done.logical_or_(~buffers["live"].any(1))
        buffers["tokens"].copy_(tokens)

    def collect(self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]) -> Chosen:
        tokens, logp = (held[name].swapaxes(1, 2) for name in self.kept)  # (n, K, T + 1)
        n, K, T = tokens.shape
        limits = np.array([state.limits[index] for state, index in states])
        before_end = np.logical_and.accumulate(tokens != EOS, axis=2).sum(2)
        lengths = np.minimum(before_end + 1, limits[:, None])
        order = np.argsort(lengths, axis=1, kind="stable")
        sentences = np.arange(n)[:, None]
        tokens, logp = (x[sentences, order].reshape(n * K, T) for x in (tokens, logp))
        units = np.arange(n).repeat(K)
        return Chosen(units, tokens, logp, lengths[sentences, order].ravel(), None)


class Continuations(NamedTuple):
    """`seq2seq.decoding.beam.Continuations` as tensors: U units, R candidate continuations each."""

    values: Tensor  # (U, R)
    beams: Tensor
    tokens: Tensor
    gains: Tensor
    greedy: Tensor
    ended: Tensor

    def at(self, places: Tensor) -> "Continuations":
        """The continuations at these places, (U, R')."""
        return Continuations(*(x.gather(1, places) for x in self))

    def best_open(self, K: int) -> "Continuations":
        """The K best open continuations, (U, K). If the output of greedy search is not among them,
        it replaces the last one.
        """
        places = self.ended[:, :-1].byte().sort(dim=1, stable=True).indices[:, :K]
        is_open = self.greedy & ~self.ended
        lost = is_open[:, -1] & ~is_open.gather(1, places).any(1)
        last = torch.where(lost, is_open.shape[1] - 1, places[:, -1])
        return self.at(torch.cat((places[:, :-1], last[:, None]), 1))


def select_continuations(
    total: Tensor, gains: Tensor, ids: Tensor, greedy: Tensor, bias: Tensor | None = None
) -> Continuations:
    """`seq2seq.decoding.beam.select_continuations` without guides: (U, K), (U, K, C) twice, (U,)
    and (U, K, C) or None -> (U, R).
    """
    _, K, C = gains.shape
    values = (total[:, :, None] + gains).flatten(1)
    beam = greedy.clamp(min=0)
    first, ranks = beam * C, values
    if bias is not None:
        ranks = values + bias.flatten(1)
        of_beam = (gains + bias).gather(1, beam[:, None, None].expand(-1, 1, C))[:, 0]
        first = first + descending(of_beam)[:, 0]
    best = descending(ranks)[:, : min(2 * K, K * C)]
    index = torch.cat((best, first[:, None]), 1)
    values, tokens = values.gather(1, index), ids.flatten(1).gather(1, index)
    is_greedy = (index == first[:, None]) & (greedy >= 0)[:, None] & values.isfinite()
    ended = (tokens == EOS) & (values != -torch.inf)
    gains = gains.flatten(1).gather(1, index)
    return Continuations(values, index // C, tokens, gains, is_greedy, ended)


def descending(x: Tensor) -> Tensor:
    """The order of each row, largest first; of equal values the first stays first."""
    return x.sort(dim=1, descending=True, stable=True).indices


class SlotBeamSearch(SlotSearch):
    """Beam search, alone or in groups that avoid each other's tokens.

    The G groups of a sentence are units of K / G beams, advanced as `Beam` and `DiverseBeam`
    describe.

    Buffers of units, (B, G, ...): those of `BeamState`; penalties, by the number of tokens; over,
    True once a unit's search is over; cut, True if that was at the limit; length, its steps.
    Buffers of steps, with R = K / G + 1: parents, the beam that each beam continues; ends, the
    beams of hypotheses that end, otherwise -1; end_gains and end_totals of these.
    """

    search: Beam
    kept = (
        *("chosen", "gains", "parents", "ends", "end_gains", "end_totals"),
        *("total", "cut", "length"),
    )

    def __init__(self, search: Beam, buffers: Buffers) -> None:
        super().__init__(search, buffers)
        if isinstance(search, DiverseBeam):
            self.search, self.groups = search.group, search.groups
        K, G = self.beams, self.groups
        self.width = K // G
        buffers.declare(
            total=Spec((G, self.width), torch.double, -np.inf),
            count=Spec((G,), torch.long),
            best=Spec((G,), torch.double, -np.inf),
            greedy=Spec((G,), torch.long, -1),
            max_finished=Spec((G,), torch.long),
            diversity_penalty=Spec((G,), torch.double),
            penalties=Spec((G, "L"), torch.double, 1),
            over=Spec((G,), torch.bool, True),
            cut=Spec((G,), torch.bool),
            length=Spec((G,), torch.long),
            parents=Spec(("T+1", K), torch.long),
            ends=Spec(("T+1", K + G), torch.long, -1),
            end_gains=Spec(("T+1", K + G), torch.double),
            end_totals=Spec(("T+1", K + G), torch.double),
        )

    def size_for(self, state: SearchState) -> Size:
        size = super().size_for(state)
        return size._replace(limit=size.limit + 2)  # penalties of up to limit + 1 tokens

    def first_values(self, state: SearchState) -> dict[str, Array]:
        assert isinstance(state, BeamState)
        units = len(state.limits)
        lengths = np.arange(1, int(state.limits.max()) + 2, dtype=np.float64)
        penalties = np.ones((units, len(lengths) + 1))
        penalties[:, 1:] = state.search.penalty(lengths, state.exponent[:, None])
        values = {name: getattr(state, name) for name in ("total", "greedy", "max_finished")}
        values |= {"penalties": penalties, "over": np.zeros(units, dtype=bool)}
        if isinstance(state, DiverseState):
            values["diversity_penalty"] = state.diversity_penalty
        by_sentence = {name: x.reshape(-1, self.groups, *x.shape[1:]) for name, x in values.items()}
        return super().first_values(state) | by_sentence

    def units(self, name: str) -> Tensor:
        """A buffer by units, (B G, ...)."""
        return self.buffers.rows(name)

    def change(self, **values: Tensor) -> None:
        """Change buffers, (B G, ...) each, for the units whose search is not over."""
        for name, value in values.items():
            buffer = self.units(name)
            over = self.units("over").view(-1, *[1] * (value.dim() - 1))
            buffer.copy_(torch.where(over, buffer, value))

    def advance(self, candidates: Candidates) -> Tensor:
        K, over = self.width, self.units("over")
        logp, ids = (x.unflatten(0, (-1, K)) for x in candidates)  # (B G, K, C)
        selected = self.select(logp.double(), ids)
        self.finish_ended(selected)
        going = selected.best_open(K)
        first = torch.arange(0, len(over) * K, K, device=over.device)[:, None]
        parents = (first + going.beams).flatten()
        is_greedy = going.greedy & ~going.ended
        greedy = torch.where(is_greedy.any(1), descending(is_greedy.byte())[:, 0], -1)
        self.change(total=going.values, greedy=greedy, length=self.units("length") + 1)
        choices = {"chosen": going.tokens, "gains": going.gains, "parents": going.beams}
        self.write({name: x.reshape(-1, self.beams) for name, x in choices.items()}, parents)
        self.stop_decided()
        dead = (going.values == -torch.inf) | over[:, None]
        tokens = going.tokens.masked_fill(dead, PAD)
        self.buffers["tokens"].copy_(tokens.view(-1, self.beams))
        return parents

    def select(self, gains: Tensor, ids: Tensor) -> Continuations:
        """Select continuations from candidates, (B G, K / G, C)."""
        G = self.groups
        over = self.units("over")[:, None]
        total = self.units("total").masked_fill(over, -torch.inf)
        greedy = self.units("greedy")
        if G == 1:
            return select_continuations(total, gains, ids, greedy)
        earlier = ids[::G, 0, :0]  # the tokens of the beams of earlier groups
        by_group = []
        for g in range(G):
            penalty = self.buffers["diversity_penalty"][:, g, None, None]
            bias = -penalty * count_among(ids[g::G], earlier)
            selected = select_continuations(total[g::G], gains[g::G], ids[g::G], greedy[g::G], bias)
            best = selected.best_open(self.width)
            tokens = torch.where(best.values == -torch.inf, FREE, best.tokens)
            earlier = torch.cat((earlier, tokens), 1)
            by_group.append(selected)
        groups = (torch.stack(x, 1).flatten(0, 1) for x in zip(*by_group, strict=True))
        return Continuations(*groups)

    def finish_ended(self, selected: Continuations) -> None:
        """Finish continuations that end here: the first K, and the output of greedy search."""
        K, over = self.width, self.units("over")
        finished = selected.ended & selected.values.isfinite() & ~over[:, None]
        is_new = selected.greedy[:, -1:] & ~selected.greedy[:, :K].any(1, keepdim=True)
        finished = torch.cat((finished[:, :K], finished[:, -1:] & is_new), 1)  # (B G, K / G + 1)
        values, beams, _, gains, *_ = (torch.cat((x[:, :K], x[:, -1:]), 1) for x in selected)
        scores = values / self.penalty(self.units("length") + 1)[:, None]
        best = torch.where(finished, scores, -torch.inf).amax(1)
        self.change(
            count=self.units("count") + finished.sum(1),
            best=torch.maximum(self.units("best"), best),
        )
        ends = {"ends": torch.where(finished, beams, -1), "end_gains": gains, "end_totals": values}
        self.write_column(
            {name: x.reshape(len(self.buffers["done"]), -1) for name, x in ends.items()}
        )

    def penalty(self, lengths: Tensor) -> Tensor:
        """The penalties of these numbers of tokens, (B G,)."""
        table = self.units("penalties")
        return table.gather(1, lengths.clamp(max=table.shape[1] - 1)[:, None])[:, 0]

    def stop_decided(self) -> None:
        """Stop the search of units with enough finished hypotheses and, if `stopping` is `score`,
        no open one that can still win; and of those at their limit.
        """
        buffers, length = self.buffers, self.units("length")
        limits = buffers["limits"].repeat_interleave(self.groups)
        decided = self.units("count") >= self.units("max_finished")
        if self.search.stopping == "score" and self.width > 1:
            total, best, greedy = (self.units(name) for name in ("total", "best", "greedy"))
            beaten = best >= total.amax(1) / self.penalty(torch.minimum(length + 1, limits))
            of_greedy = total.gather(1, greedy.clamp(min=0)[:, None])[:, 0]
            decided &= beaten & ((greedy < 0) | (best >= of_greedy / self.penalty(limits)))
        at_limit = length >= limits
        self.change(cut=at_limit & ~decided)
        self.units("over").logical_or_(decided | at_limit)
        buffers["done"].copy_(buffers["over"].all(1))

    def collect(self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]) -> Chosen:
        G = self.groups
        n, T, _ = held["chosen"].shape
        steps = {
            name: held[name].reshape(n, T, G, -1).swapaxes(1, 2).reshape(n * G, T, -1)
            for name in self.kept[:6]
        }  # (n G, T, ...)
        of_units = {name: held[name].reshape(n * G, -1) for name in self.kept[6:]}
        length = of_units["length"][:, 0]
        inside = np.arange(T) < length[:, None]
        unit, last, place = ((steps["ends"] >= 0) & inside[:, :, None]).nonzero()
        # Dead beams give no result, but beams with a score of NaN, from a diverged model, do.
        cut_unit, cut_beam = (of_units["cut"] & (of_units["total"] != -np.inf)).nonzero()
        units = np.concatenate((unit, cut_unit))
        beams = np.concatenate((steps["ends"][unit, last, place], cut_beam))
        counts = np.concatenate((last, length[cut_unit]))  # tokens before eos
        tokens, logp = trace(steps, units, beams, counts)
        ended = np.arange(len(unit))
        tokens[ended, last] = EOS
        logp[ended, last] = steps["end_gains"][unit, last, place]
        lengths = counts + (np.arange(len(units)) < len(unit))
        totals = np.concatenate(
            (steps["end_totals"][unit, last, place], of_units["total"][cut_unit, cut_beam])
        )
        exponents = [
            state.exponent[index * G : (index + 1) * G]
            for state, index in states
            if isinstance(state, BeamState)
        ]
        of_units_exponents = np.concatenate(exponents)
        penalties = self.search.penalty(lengths.astype(np.float64), of_units_exponents[units])
        return Chosen(units, tokens, logp, lengths, totals / penalties)


def trace(
    steps: dict[str, Array], units: Array, beams: Array, counts: Array
) -> tuple[Array, Array]:
    """The tokens of M hypotheses and their log-probabilities, (M, T) each.

    Args:
        steps: tokens, log-probabilities and parents that were chosen, (U, T, K) each.
        units, beams: unit and last beam of each hypothesis, (M,).
        counts: number of its tokens, (M,).
    """
    T = steps["chosen"].shape[1]
    tokens, logp = np.zeros((len(units), T), dtype=np.int64), np.zeros((len(units), T))
    beams = beams.copy()
    for t in range(int(counts.max(initial=0)) - 1, -1, -1):
        (rows,) = (counts > t).nonzero()
        at = units[rows], t, beams[rows]
        tokens[rows, t], logp[rows, t] = steps["chosen"][at], steps["gains"][at]
        beams[rows] = steps["parents"][at]
    return tokens, logp


def slot_search(search: Search, buffers: Buffers) -> SlotSearch:
    """The search in buffers; see `is_covered`."""
    return (
        SlotBeamSearch(search, buffers) if isinstance(search, Beam) else SlotBeams(search, buffers)
    )


def is_covered(search: Search) -> bool:
    """True if a search can run in buffers."""
    if isinstance(search, Beam) and search.reads_weights:
        return False
    return type(search) in (Greedy, Sample, Beam, DiverseBeam)

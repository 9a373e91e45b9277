"""Beam search in buffers, alone or in groups: the choices of `BeamState` and `DiverseState`, as
tensor code of constant sizes.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.symbols import EOS, PAD
from seq2seq.decoding.beam import Beam, BeamState, Continuations
from seq2seq.decoding.device.buffers import Buffers, Size, Spec
from seq2seq.decoding.device.search import SlotSearch
from seq2seq.decoding.diverse import DiverseBeam, count_among
from seq2seq.decoding.search import FREE, Array, SearchState
from seq2seq.models.candidates import Candidates


def best_open_in_slots(selected: Continuations[Tensor], K: int) -> Continuations[Tensor]:
    """`seq2seq.decoding.beam.best_open` of U units: (U, R) -> (U, K)."""
    places = selected.ended[:, :-1].byte().sort(dim=1, stable=True).indices[:, :K]
    is_open = selected.greedy & ~selected.ended
    lost = is_open[:, -1] & ~is_open.gather(1, places).any(1)
    last = torch.where(lost, is_open.shape[1] - 1, places[:, -1])
    places = torch.cat((places[:, :-1], last[:, None]), 1)
    return Continuations(*(x.gather(1, places) for x in selected))


def select_in_slots(
    total: Tensor, gains: Tensor, ids: Tensor, greedy: Tensor, bias: Tensor | None = None
) -> Continuations[Tensor]:
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
    Buffers of steps have, for each unit, first the K / G + 1 continuations that may end, chosen =
    eos if they do and otherwise FREE, and then the K / G that go on: tokens, log-probabilities,
    totals, and parents, the beams that are continued.
    """

    search: Beam
    history = ("chosen", "gains", "parents", "totals")
    kept = (*history, "cut", "length", "penalties")

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
        )
        for name in self.history:
            dtype = torch.long if name in ("chosen", "parents") else torch.double
            buffers.declare(**{name: Spec(("T+1", 2 * K + G), dtype)})

    def size_for(self, state: SearchState) -> Size:
        size = super().size_for(state)
        return size._replace(limit=size.limit + 2)  # penalties of up to limit + 1 tokens

    def first_values(self, state: SearchState) -> dict[str, Array]:
        assert isinstance(state, BeamState)
        values = super().first_values(state)
        exponents = state.exponent.reshape(-1, self.groups, 1)
        lengths = np.arange(1, int(state.limits.max()) + 2, dtype=np.float64)
        penalties = np.ones((*exponents.shape[:2], len(lengths) + 1))
        penalties[..., 1:] = state.search.penalty(lengths, exponents)
        return values | {"penalties": penalties, "over": np.zeros(penalties.shape[:2], dtype=bool)}

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
        ending, going = self.finish_ended(selected), best_open_in_slots(selected, K)
        first = torch.arange(0, len(over) * K, K, device=over.device)[:, None]
        parents = (first + going.beams).flatten()
        is_greedy = going.greedy & ~going.ended
        greedy = torch.where(is_greedy.any(1), descending(is_greedy.byte())[:, 0], -1)
        self.change(total=going.values, greedy=greedy, length=self.units("length") + 1)
        both = (torch.cat(pair, 1) for pair in zip(ending, going, strict=True))
        values, beams, tokens, gains, *_ = (x.view(len(self.buffers["done"]), -1) for x in both)
        history = dict(zip(self.history, (tokens, gains, beams, values), strict=True))
        self.write(going.tokens.reshape(-1, self.beams), history, parents)
        self.stop_decided()
        dead = (going.values == -torch.inf) | over[:, None]
        tokens = going.tokens.masked_fill(dead, PAD)
        self.buffers["tokens"].copy_(tokens.view(-1, self.beams))
        return parents

    def select(self, gains: Tensor, ids: Tensor) -> Continuations[Tensor]:
        """Select continuations from candidates, (B G, K / G, C)."""
        G = self.groups
        over = self.units("over")[:, None]
        total = self.units("total").masked_fill(over, -torch.inf)
        greedy = self.units("greedy")
        if G == 1:
            return select_in_slots(total, gains, ids, greedy)
        earlier = ids[::G, 0, :0]  # the tokens of the beams of earlier groups
        by_group = []
        for g in range(G):
            penalty = self.buffers["diversity_penalty"][:, g, None, None]
            bias = -penalty * count_among(ids[g::G], earlier)
            selected = select_in_slots(total[g::G], gains[g::G], ids[g::G], greedy[g::G], bias)
            best = best_open_in_slots(selected, self.width)
            tokens = torch.where(best.values == -torch.inf, FREE, best.tokens)
            earlier = torch.cat((earlier, tokens), 1)
            by_group.append(selected)
        groups = (torch.stack(x, 1).flatten(0, 1) for x in zip(*by_group, strict=True))
        return Continuations(*groups)

    def finish_ended(self, selected: Continuations[Tensor]) -> Continuations[Tensor]:
        """Finish continuations that end here: of the first K, and the output of greedy search.

        Returns: these K + 1 continuations, with FREE as the token of those that do not.
        """
        K, over = self.width, self.units("over")
        finished = selected.ended & selected.values.isfinite() & ~over[:, None]
        is_new = selected.greedy[:, -1:] & ~selected.greedy[:, :K].any(1, keepdim=True)
        finished = torch.cat((finished[:, :K], finished[:, -1:] & is_new), 1)
        ending = Continuations(*(torch.cat((x[:, :K], x[:, -1:]), 1) for x in selected))
        scores = ending.values / self.penalty(self.units("length") + 1)[:, None]
        best = torch.where(finished, scores, -torch.inf).amax(1)
        count = self.units("count") + finished.sum(1)
        self.change(count=count, best=torch.maximum(self.units("best"), best))
        return ending._replace(tokens=torch.where(finished, EOS, FREE))

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
        buffers["done"].logical_or_(buffers["over"].all(1))  # those that left stay done

    def collect(
        self, states: Sequence[tuple[SearchState, int]], held: dict[str, Array]
    ) -> tuple[Array, Array, Array, Array, Array]:
        G, ends = self.groups, self.width + 1
        n, T, _ = held["chosen"].shape
        by_unit = (held[name].reshape(n, T, G, -1).swapaxes(1, 2) for name in self.history)
        chosen, gains, parents, totals = (x.reshape(n * G, T, -1) for x in by_unit)
        length, cut = (held[name].reshape(-1, 1, 1) for name in ("length", "cut"))
        step = np.arange(T)[:, None]
        finished = (chosen == EOS) & (step < length)
        # Dead beams give no result, but beams with a score of NaN, from a diverged model, do.
        at_limit = cut & (step == length - 1) & (totals != -np.inf)
        finished[..., ends:] = at_limit[..., ends:]
        unit, last, place = finished.nonzero()
        penalties = held["penalties"].reshape(n * G, -1)[unit, last + 1]
        scores, lengths = totals[unit, last, place] / penalties, last + 1
        tokens, logp = np.zeros((len(unit), T), dtype=np.int64), np.zeros((len(unit), T))
        for t in range(int(lengths.max(initial=0)) - 1, -1, -1):
            (rows,) = (t <= last).nonzero()
            at = unit[rows], t, place[rows]
            tokens[rows, t], logp[rows, t] = chosen[at], gains[at]
            place[rows] = ends + parents[at]
        return unit, tokens, logp, scores, lengths

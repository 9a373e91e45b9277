"""Naive searches: lists, one hypothesis at a time, every prefix from its beginning."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from helpers.table_model import NextLogP
from seq2seq.base.registry import options_of
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.decoding import SEARCHES, Hypothesis
from seq2seq.decoding.constraints.guide import Guide
from seq2seq.models.candidates import certain

Looks = Callable[[list[int]], list[float]]  # prefix -> weights of the next step, S + 1 of them
Choose = Callable[[list[tuple[float, int]], int], tuple[float, int]]


@dataclass(frozen=True)
class Case:
    """A sentence: what the model computes for it, and what the user asks of it."""

    logp: NextLogP
    pieces: int  # of the source, without eos
    prefix: list[int] = field(default_factory=list)
    looks: Looks = lambda prefix: []
    draw_id: int = 0


class Beam(NamedTuple):
    """A hypothesis that is still open."""

    ids: list[int]
    logp: list[float]


def defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    known = options_of(SEARCHES[options["name"]])
    return {name: parameter.default for name, parameter in known.items()} | dict(options)


def limit_of(case: Case, o: Mapping[str, Any]) -> int:
    limit = max(o["length_ratio"] * case.pieces, len(case.prefix)) + o["length_extra"]
    return math.floor(min(limit, o["max_length"] or math.inf))


def candidates(case: Case, o: Mapping[str, Any], ids: list[int]) -> list[tuple[float, int]]:
    """What may come next, best first: (log-probability, token)."""
    values, n = case.logp(ids), len(ids) + 1
    if n <= len(case.prefix):
        token = case.prefix[n - 1]
        return [(0.0, certain(token)) if token < 0 else (values[token], token)]
    minimum = min(
        math.ceil(o["min_length_ratio"] * case.pieces + o["min_length_extra"]), limit_of(case, o)
    )
    banned = {PAD, BOS, UNK} | ({EOS} if n < minimum else set())
    if size := o["no_repeat_ngram"]:
        seen = [ids[i : i + size] for i in range(len(ids) - size + 1)]
        banned |= {ngram[-1] for ngram in seen if ngram[:-1] == ids[len(ids) - size + 1 :]}
    allowed = [(value, token) for token, value in enumerate(values) if token not in banned]
    return sorted(allowed, key=lambda c: -c[0])


def beam_score(case: Case, o: Mapping[str, Any], beam: Beam) -> float:
    n = len(beam.ids)
    base = {"power": n, "gnmt": (5 + n) / 6}[o["penalty_form"]]
    score = sum(beam.logp) / base ** o["length_penalty"]
    if o["coverage"]:
        steps = zip(*(case.looks(beam.ids[:t]) for t in range(n)), strict=True)
        score += o["coverage"] * sum(math.log(min(max(sum(s), 2.0**-23), 1.0)) for s in steps)
    return score


def can_win(
    case: Case, o: Mapping[str, Any], live: list[Beam], finished: list[Beam], greedy: Beam | None
) -> bool:
    """Whether an open hypothesis would win with a certain end, or that of greedy search ever."""
    if o["beam_size"] == 1 or o["stopping"] == "count":
        return False
    limit, best = limit_of(case, o), max(beam_score(case, o, beam) for beam in finished)

    def attainable(beam: Beam, n: int) -> float:
        base = {"power": n, "gnmt": (5 + n) / 6}[o["penalty_form"]]
        return sum(beam.logp) / base ** o["length_penalty"]

    return any(attainable(beam, min(len(beam.ids) + 1, limit)) > best for beam in live) or (
        greedy is not None and attainable(greedy, limit) > best
    )


class NaiveGroup:
    """A beam search in which tokens may have costs, with a guide or without."""

    def __init__(self, case: Case, o: Mapping[str, Any], guide: Guide | None):
        self.case, self.o, self.guide = case, o, guide
        self.live = [Beam([], [])]
        self.finished: list[Beam] = []
        requires = guide is not None and guide.requires
        self.greedy = self.live[0] if o["stopping"] == "score" and not requires else None
        self.done = False

    def value(self, beam: Beam, costs: dict[int, float]) -> float:
        return sum(beam.logp) - costs.get(beam.ids[-1], 0.0)

    def state(self, ids: list[int]) -> int:
        state = 0
        for token in ids:
            if token != EOS and self.guide is not None:
                state = self.guide.next_state(state, token)
        return state

    def grown(self, beam: Beam) -> list[Beam]:
        options = candidates(self.case, self.o, beam.ids)
        if self.guide is not None:
            banned, allowed, _ = self.guide.next_tokens(self.state(beam.ids))
            options = [o for o in options if o[1] not in banned.tolist()]
            if allowed is not None:
                options = [o for o in options if o[1] in allowed.tolist()]
        return [Beam([*beam.ids, token], [*beam.logp, value]) for value, token in options]

    def best(self, beams: list[Beam], costs: dict[int, float]) -> list[Beam]:
        """The best first, and a hypothesis of each progress in turn."""
        beams = sorted(beams, key=lambda beam: -self.value(beam, costs))
        if self.guide is None:
            return beams
        progress = [self.guide.progress(self.state(beam.ids)) for beam in beams]
        turns = [progress[:i].count(p) for i, p in enumerate(progress)]
        order = sorted(range(len(beams)), key=lambda i: (turns[i], -progress[i]))
        return [beams[i] for i in order]

    def step(self, costs: dict[int, float]) -> list[int]:
        """One step of the search. Returns: the last token of each beam that goes on."""
        K, limit = self.o["beam_size"], limit_of(self.case, self.o)
        grown = [longer for beam in self.live for longer in self.grown(beam)]
        grown = self.best(grown, costs)[: 2 * K]
        self.finished += [beam for beam in grown[:K] if beam.ids[-1] == EOS]
        self.live = [beam for beam in grown if beam.ids[-1] != EOS][:K]
        if self.greedy is not None:
            self.greedy = max(self.grown(self.greedy), key=lambda beam: self.value(beam, costs))
            if self.greedy.ids[-1] == EOS:
                self.finished += [self.greedy] if self.greedy not in grown[:K] else []
                self.greedy = None
            elif self.greedy not in self.live:
                self.live = [*self.live[: K - 1], self.greedy]
        enough = bool(self.finished) and len(self.finished) >= self.o["patience"] * K
        going, n = self.live, len(self.live[0].ids) if self.live else limit
        if enough and not can_win(self.case, self.o, self.live, self.finished, self.greedy):
            self.done = True
        elif n == limit:
            self.finished += self.live
            self.done = True
        return [beam.ids[-1] for beam in going]


def naive_groups(
    case: Case, o: Mapping[str, Any], groups: int, guide: Guide | None
) -> list[Hypothesis]:
    """Beam search in groups, each of which pays for the tokens that earlier ones have chosen."""
    size = o["beam_size"] // groups
    searches = [NaiveGroup(case, {**o, "beam_size": size}, guide) for _ in range(groups)]
    while not all(group.done for group in searches):
        chosen: Counter[int] = Counter()
        for group in searches:
            if not group.done:
                costs = {token: o.get("diversity_penalty", 0) * n for token, n in chosen.items()}
                chosen.update(group.step(costs))
    finished = [beam for group in searches for beam in group.finished]
    once = [beam for i, beam in enumerate(finished) if beam not in finished[:i]]
    return ranked([hypothesis(beam, beam_score(case, o, beam)) for beam in once], o)


def ranked(hypotheses: list[Hypothesis], o: Mapping[str, Any]) -> list[Hypothesis]:
    return sorted(
        hypotheses, key=lambda h: (h.truncated and len(h.ids) != o["max_length"], -h.score)
    )


def hypothesis(beam: Beam, score: float) -> Hypothesis:
    ids = [token for token in beam.ids if token != EOS]
    return Hypothesis(ids, score, sum(beam.logp), ids == beam.ids, beam.logp)


def naive_independent(case: Case, o: Mapping[str, Any], choose: Choose) -> Hypothesis:
    beam = Beam([], [])
    while EOS not in beam.ids and len(beam.ids) < limit_of(case, o):
        value, token = choose(candidates(case, o, beam.ids), len(beam.ids))
        beam = Beam([*beam.ids, token], [*beam.logp, value])
    return hypothesis(beam, sum(beam.logp) / len(beam.ids))


def naive_sample(case: Case, o: Mapping[str, Any], sample: int) -> Hypothesis:
    def draw(best: list[tuple[float, int]], step: int) -> tuple[float, int]:
        best = best[: o["top_k"] or len(best)]
        weights = [math.exp(value / o["temperature"]) for value, _ in best]
        total, kept = sum(weights), 0
        while kept == 0 or (kept < len(best) and sum(weights[:kept]) / total < o["top_p"]):
            kept += 1
        least = max(o["epsilon"] * total, o["min_p"] * weights[0])
        kept = max(1, min(kept, sum(weight >= least for weight in weights)))
        u = naive_uniform(o["seed"], case.draw_id, sample, step) * sum(weights[:kept])
        place = 0
        while u >= sum(weights[: place + 1]) and place < kept - 1:
            place += 1
        return best[place]

    return naive_independent(case, o, draw)


def naive_uniform(*counters: int) -> float:
    """SplitMix64's finaliser over one counter after the other, with unsigned integers."""
    state = 0
    for counter in counters:
        state = (state + counter + 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return (state >> 11) / 2**53


def naive(case: Case, options: Mapping[str, Any], guide: Guide | None = None) -> list[Hypothesis]:
    """All hypotheses that a search of these options should find, best first.

    Args:
        guide: the guide of a beam search; the others take none.
    """
    o = defaults(options)
    if o["name"] == "beam":
        return naive_groups(case, o, 1, guide)
    if o["name"] == "diverse":
        return naive_groups(case, o, o["beam_groups"] or o["beam_size"], guide)
    if o["name"] == "greedy":
        return [naive_independent(case, o, lambda best, _: best[0])]
    hypotheses = [naive_sample(case, o, sample) for sample in range(o["samples"])]
    return ranked(hypotheses, o)


def diverse_options() -> list[dict[str, Any]]:
    """Groups of all shapes and penalties, each with other options of beam search."""
    shapes = [(4, 2), (6, 3), (4, None), (6, 2), (3, 1), (4, 2)]
    others: list[dict[str, Any]] = [
        {},
        {"length_penalty": 0.0, "stopping": "count"},
        {"length_penalty": 0.6, "penalty_form": "gnmt", "patience": 2.0},
        {"stopping": "count"},
        {"coverage": 0.7, "patience": 0.3},
        {"length_penalty": 0.0},
    ]
    return [
        {"name": "diverse", "beam_size": beams, "beam_groups": groups, **other}
        | {"diversity_penalty": penalty}
        for (beams, groups), other in zip(shapes, others, strict=True)
        for penalty in (0.0, 0.5, 3.0)
    ]


def some_options(seed: int) -> Sequence[dict[str, Any]]:
    """Searches of many kinds, and limits of many kinds for each."""
    searches: list[dict[str, Any]] = [
        {"name": "greedy"},
        {"name": "beam", "beam_size": 1},
        {"name": "beam", "beam_size": 4},
        {"name": "beam", "beam_size": 5, "length_penalty": 0.6, "penalty_form": "gnmt"},
        {"name": "beam", "beam_size": 3, "length_penalty": 0.0, "patience": 2.0},
        {"name": "beam", "beam_size": 4, "patience": 0.3},
        {"name": "beam", "beam_size": 4, "stopping": "count"},
        {"name": "beam", "beam_size": 4, "coverage": 0.7},
        *diverse_options(),
        {"name": "sample", "samples": 3, "seed": seed},
        {"name": "sample", "samples": 2, "seed": seed, "temperature": 0.5, "top_k": 3},
        {"name": "sample", "samples": 2, "seed": seed, "temperature": 1.5, "top_p": 0.7},
        {"name": "sample", "samples": 2, "seed": seed, "epsilon": 0.1, "top_k": 6},
        {"name": "sample", "samples": 2, "seed": seed, "temperature": 2.0, "min_p": 0.3},
    ]
    limits: list[dict[str, Any]] = [
        {"length_ratio": 0.0, "length_extra": 1},
        {"length_ratio": 1.0, "length_extra": 2},
        {"max_length": 3},
        {"length_ratio": 1.5, "min_length_ratio": 0.7, "min_length_extra": 2, "length_extra": 4},
    ]
    return [{**search, **limit} for search in searches for limit in limits]

"""Diverse beam search against a naive one on lists, against `Beam`, and by its promises."""

import random
from collections import Counter
from typing import Any, Literal

import pytest
import torch
from helpers.builders import small_model, source_batch, translate_copies
from helpers.constraints import obeys, random_constraint
from helpers.naive import Beam as Open
from helpers.naive import (
    Case,
    beam_score,
    can_win,
    candidates,
    defaults,
    hypothesis,
    limit_of,
    ranked,
)
from helpers.searches import Run, table_cases
from helpers.toys import TableModel, assert_same

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import options_of
from seq2seq.base.symbols import EOS
from seq2seq.cli.main import parse_arguments
from seq2seq.decoding import (
    SEARCHES,
    Beam,
    DiverseBeam,
    Engine,
    Hypothesis,
    SentenceRequest,
    build_search,
    decode,
)
from seq2seq.decoding.constraints.guide import Guide
from seq2seq.decoding.constraints.lexical import Vocabulary
from seq2seq.text.tokenization.words import CharacterLevel


class NaiveGroup:
    """A beam search in which tokens may cost something, with a guide or without."""

    def __init__(self, case: Case, o: dict[str, Any], guide: Guide | None):
        self.case, self.o, self.guide = case, o, guide
        self.live = [Open([], [])]
        self.finished: list[Open] = []
        requires = guide is not None and guide.requires
        self.greedy = self.live[0] if o["stopping"] == "score" and not requires else None
        self.done = False

    def value(self, beam: Open, costs: dict[int, float]) -> float:
        return sum(beam.logp) - costs.get(beam.ids[-1], 0.0)

    def state(self, ids: list[int]) -> int:
        state = 0
        for token in ids:
            if token != EOS and self.guide is not None:
                state = self.guide.next_state(state, token)
        return state

    def grown(self, beam: Open) -> list[Open]:
        options = candidates(self.case, self.o, beam.ids)
        if self.guide is not None:
            banned, allowed, _ = self.guide.next_tokens(self.state(beam.ids))
            options = [o for o in options if o[1] not in banned.tolist()]
            if allowed is not None:
                options = [o for o in options if o[1] in allowed.tolist()]
        return [Open([*beam.ids, token], [*beam.logp, value]) for value, token in options]

    def best(self, beams: list[Open], costs: dict[int, float]) -> list[Open]:
        """Best first, those of each progress in turns."""
        beams = sorted(beams, key=lambda beam: -self.value(beam, costs))
        if self.guide is None:
            return beams
        progress = [self.guide.progress(self.state(beam.ids)) for beam in beams]
        turns = [progress[:i].count(p) for i, p in enumerate(progress)]
        order = sorted(range(len(beams)), key=lambda i: (turns[i], -progress[i]))
        return [beams[i] for i in order]

    def step(self, costs: dict[int, float]) -> list[int]:
        """Returns: the tokens with which beams go on."""
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


def naive_diverse(
    case: Case, options: dict[str, Any], guide: Guide | None = None
) -> list[Hypothesis]:
    o = defaults(options)
    G = o["beam_groups"] or o["beam_size"]
    groups = [NaiveGroup(case, {**o, "beam_size": o["beam_size"] // G}, guide) for _ in range(G)]
    while not all(group.done for group in groups):
        chosen: Counter[int] = Counter()
        for group in groups:
            if not group.done:
                costs = {token: o["diversity_penalty"] * n for token, n in chosen.items()}
                chosen.update(group.step(costs))
    finished = [beam for group in groups for beam in group.finished]
    once = [
        beam for i, beam in enumerate(finished) if beam.ids not in [b.ids for b in finished[:i]]
    ]
    return ranked([hypothesis(beam, beam_score(case, o, beam)) for beam in once], o)


SHAPES = [(4, 2), (6, 3), (4, None), (6, 2), (3, 1)]
OTHERS: list[dict[str, Any]] = [
    {},
    {"length_penalty": 0.0, "length_ratio": 1.0, "length_extra": 2},
    {"length_penalty": 0.6, "penalty_form": "gnmt", "patience": 2.0},
    {"stopping": "count", "max_length": 4},
    {"coverage": 0.7, "patience": 0.3, "max_length": 5},
    {"min_length_ratio": 0.5, "min_length_extra": 2, "length_extra": 4},
]


@pytest.mark.parametrize("others", OTHERS, ids=str)
@pytest.mark.parametrize(("beams", "groups"), SHAPES)
@pytest.mark.parametrize("penalty", [0.0, 0.5, 3.0])
def test_sentences_of_any_age_in_any_company_are_searched_as_the_naive_search_does(
    penalty: float, beams: int, groups: int | None, others: dict[str, Any]
) -> None:
    options = {"name": "diverse", "beam_size": beams, "beam_groups": groups, **others}
    options["diversity_penalty"] = penalty
    rng = random.Random(f"{options}")
    cases = table_cases(rng.randrange(1000), 6, eos=rng.choice([-2.0, 0.0, 1.0]))
    waiting, run = list(cases), Run(build_search(options), options)
    while waiting or run.cases:
        if waiting and (not run.cases or rng.random() < 0.5):
            count = rng.randint(1, 3)
            run.arrive(waiting[:count])
            waiting = waiting[count:]
        run.step()
    for case in cases:
        assert_same(run.results[case.draw_id], naive_diverse(case, options))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("beams", "groups"), SHAPES)
def test_without_repeats_it_is_the_naive_search(beams: int, groups: int | None, size: int) -> None:
    options = {"name": "diverse", "beam_size": beams, "beam_groups": groups}
    options |= {"no_repeat_ngram": size, "length_extra": 4}
    model, source, prefixes = TableModel(8, size, eos=-2.0), source_batch(9, 9), [[], [4, 4, 4]]
    results = decode(model, source, build_search(options), prefixes)
    for row, prefix, result in zip(source, prefixes, results, strict=True):
        case = Case(model.next_logp(int(row[0])), len(row) - 1, prefix)
        assert_same(result, naive_diverse(case, options))


@pytest.mark.parametrize("seed", range(6))
def test_a_group_sees_enough_of_a_large_vocabulary(seed: int) -> None:
    """What is penalised falls behind, so the last group needs more than its 2 K / G best."""
    options = {"name": "diverse", "beam_size": 8, "beam_groups": 4, "diversity_penalty": 2.0}
    model, source = TableModel(200, seed, spread=1.0), source_batch(4, 2)
    for row, result in zip(source, decode(model, source, build_search(options)), strict=True):
        pieces = int((row > 0).sum()) - 1
        assert_same(result, naive_diverse(Case(model.next_logp(int(row[0])), pieces), options))


every_kind = pytest.mark.parametrize(
    "options",
    [{}, {"stopping": "count"}, {"patience": 2.0, "length_penalty": 0.0}, {"no_repeat_ngram": 1}],
    ids=str,
)


@every_kind
@pytest.mark.parametrize("variant", ["table", "transformer", "rnn"])
def test_one_group_is_beam_search_to_the_bit(variant: str, options: dict[str, Any]) -> None:
    source = source_batch(7, 1, 4, 9)
    model = TableModel(9, eos=-1.0) if variant == "table" else small_model(variant)
    expected = decode(model, source, Beam(beam_size=3, **options))
    diverse = DiverseBeam(beam_size=3, beam_groups=1, diversity_penalty=0.7, **options)
    assert decode(model, source, diverse) == expected


@every_kind
def test_without_a_penalty_all_groups_are_the_same_beam_search(options: dict[str, Any]) -> None:
    source, model = source_batch(7, 1, 4, 9), TableModel(9, eos=-1.0)
    expected = decode(model, source, Beam(beam_size=2, **options))
    diverse = DiverseBeam(beam_size=6, beam_groups=3, diversity_penalty=0.0, **options)
    assert decode(model, source, diverse) == expected


def test_with_a_high_penalty_no_group_takes_a_token_of_an_earlier_one() -> None:
    model, source = TableModel(60, eos=-50.0), source_batch(5, 8)
    search = DiverseBeam(beam_size=6, beam_groups=3, diversity_penalty=1000.0, stopping="count")
    search_state = search.start(torch.tensor([5, 8]))
    logp, ids = torch.log_softmax(model.table[:12], -1).topk(search.group.candidates)
    for _ in range(4):
        choice = search_state.advance(logp, ids)
        for tokens in choice.tokens.view(2, 3, 2).tolist():
            groups = [set(group) for group in tokens]
            assert len(set().union(*groups)) == sum(map(len, groups))
    for hypotheses in decode(model, source, search):
        assert len({h.ids[0] for h in hypotheses}) >= 3  # each group began in its own way


@pytest.mark.parametrize("cache", [pytest.param("dense", marks=pytest.mark.slow), "paged"])
@pytest.mark.parametrize(("beams", "groups"), [(4, 2), (3, None)])
def test_neighbours_of_other_penalties_and_constraints_change_nothing(
    beams: int, groups: int | None, cache: Literal["dense", "paged"]
) -> None:
    generator, model = random.Random(beams), small_model("transformer")
    letters = "ab cdefghijklmnopqrstuvwxyz"[: model.embeddings.output.out_features - 4]
    tokenizer = CharacterLevel().train([letters])
    vocabulary = Vocabulary(tokenizer, False)
    rows = [[token for token in row if token] for row in source_batch(*range(2, 11)).tolist()]
    requests = [
        SentenceRequest(
            row,
            prefix=[5, 6] if i % 4 == 1 else (),
            constraint=random_constraint(generator) if i % 4 > 1 else None,
            search=DiverseBeam(
                beam_size=beams,
                beam_groups=groups,
                diversity_penalty=(0.0, 0.5, 2.0)[i % 3],
                no_repeat_ngram=2 * (i % 2),
                length_extra=9,
            ),
        )
        for i, row in enumerate(rows)
    ]
    first = requests[0].search
    assert first is not None
    engine = Engine(model, first, vocabulary.guide, cache=cache, rows=4 * beams, page_size=4)
    for request, hypotheses in zip(requests, translate_copies(engine, requests), strict=True):
        guides = None if request.constraint is None else [vocabulary.guide(request.constraint)]
        assert request.search is not None
        (alone,) = decode(
            model, torch.tensor([request.source]), request.search, [request.prefix], guides=guides
        )
        assert_same(hypotheses, alone)
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses)
        if request.constraint is not None:
            texts = tokenizer.decode_batch([h.ids for h in hypotheses if not h.truncated])
            assert all(obeys(text, request.constraint, False) for text in texts)


@pytest.mark.parametrize("seed", range(8))
def test_one_group_obeys_as_beam_search_does(seed: int) -> None:
    tokenizer = CharacterLevel().train(["ab c"] * 3)
    guide = Vocabulary(tokenizer, False).guide(random_constraint(random.Random(seed)))
    model, source = TableModel(tokenizer.size, seed), source_batch(6)
    one, beam = (
        decode(model, source, search, guides=[guide])
        for search in (DiverseBeam(beam_size=4, beam_groups=1), Beam(beam_size=4))
    )
    assert one == beam


@pytest.mark.parametrize("penalty", [0.5, 2.0])
@pytest.mark.parametrize("seed", range(12))
def test_each_group_follows_the_progress_of_its_own_hypotheses(seed: int, penalty: float) -> None:
    """With as many candidates as there are pieces, what is wanted needs no place of its own."""
    tokenizer = CharacterLevel().train(["ab c"] * 3)
    guide = Vocabulary(tokenizer, False).guide(random_constraint(random.Random(seed)))
    model, source = TableModel(tokenizer.size, seed, eos=-1.0), source_batch(5, 2)
    options = {"name": "diverse", "beam_size": 6, "beam_groups": 2, "diversity_penalty": penalty}
    results = decode(model, source, build_search(options), guides=[guide, None])
    for row, one, result in zip(source, (guide, None), results, strict=True):
        case = Case(model.next_logp(int(row[0])), int((row > 0).sum()) - 1)
        assert_same(result, naive_diverse(case, options, one))


def test_states_of_groups_of_other_sizes_do_not_merge() -> None:
    two, four = (DiverseBeam(beam_size=n, beam_groups=n // 2) for n in (2, 4))
    with pytest.raises(ValueError, match="one kind"):
        two.start(torch.tensor([3])).merge(four.start(torch.tensor([3])))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"beam_size": 6, "beam_groups": 4},
            "beam_groups=4 should divide the 6 beams into groups of one size: 1, 2, 3, 6",
        ),
        ({"beam_size": 2, "beam_groups": 3}, "beam_groups=3 should divide the 2 beams"),
        ({"beam_groups": 0}, "decode.beam_groups=0 should be at least 1"),
        ({"diversity_penalty": -0.5}, "decode.diversity_penalty=-0.5 should be at least 0"),
    ],
)
def test_what_makes_no_groups_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_search({"name": "diverse", **options})


def test_options_of_the_command_choose_it_unless_tokens_are_drawn() -> None:
    typed = ["translate", "RUN", "--beam-groups", "2", "--diversity-penalty", "0.3"]
    given = parse_arguments(typed).search.arguments(mbr=None, nbest=None)
    assert given == {"beam_groups": 2, "diversity_penalty": 0.3}
    for name in given:
        assert [n for n in SEARCHES if name in options_of(SEARCHES.find(n))] == ["diverse"]
    for option in ("--beam-groups=2", "--diversity-penalty=0"):
        with pytest.raises(ConfigError, match=f"{option[:-2]} belongs to a search for the best"):
            parse_arguments(["translate", "RUN", option, "--sample"])

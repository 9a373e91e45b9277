"""Searches in the native decoder choose what those in Python choose from the same candidates, and
what a naive search in float64 chooses.
"""

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any

import pytest
import torch
from helpers.builders import SOURCE_SIZE, TARGET_SIZE, model_config, randomised, source_batch
from helpers.naive_search import Case, naive
from helpers.native_code import needs_native
from helpers.native_models import Phrase
from helpers.table_model import next_logp

from seq2seq.base.symbols import EOS, PAD
from seq2seq.decoding import (
    Engine,
    Hypothesis,
    Search,
    SentenceRequest,
    build_search,
    decode,
    decoding_batch,
)
from seq2seq.decoding.beam import BeamState
from seq2seq.decoding.constraints.guide import NextTokens
from seq2seq.decoding.greedy import GreedyState
from seq2seq.decoding.native.search import NativeSearch
from seq2seq.decoding.precision import with_precision
from seq2seq.models import Seq2Seq, base, build_model
from seq2seq.models.candidates import certain

pytestmark = needs_native

TRANSFORMER, SSRU = ("attn=gqa", "position=rope"), ("attn@decoder_attn=ssru",)
MODELS = {
    "transformer": ("transformer", *TRANSFORMER),
    "ssru": ("transformer", *SSRU),
    "rnn": ("rnn", "attn=dot"),
    "luong": ("rnn_luong", "attn=general", "model.cell=lstm"),
}
CACHES: dict[str, dict[str, Any]] = {
    "dense": {"cache": "dense", "rows": 24},
    "paged": {"cache": "paged", "rows": 24},
    "few pages": {"cache": "paged", "page_size": 2, "pages": 240, "rows": 64},
}
Answers = list[list[Hypothesis] | None]


def build_exact(name: str, outputs: int = TARGET_SIZE) -> Seq2Seq:
    """A small model in float64, whose embeddings of target pieces and outputs are not tied."""
    config = model_config(*MODELS[name], "model.tie=none")
    return randomised(build_model(config, SOURCE_SIZE, outputs))


def build(name: str, precision: str = "float32", outputs: int = TARGET_SIZE) -> Seq2Seq:
    return with_precision(build_exact(name, outputs).float(), precision)


@torch.no_grad()
def with_twins(model: Seq2Seq) -> Seq2Seq:
    """Make pieces 4 and 5, 6 and 7, ... equal, so that each hypothesis has equally good rivals."""
    embeddings = model.embeddings
    for table in (embeddings.target.weight, embeddings.output.weight, embeddings.output.bias):
        table[5::2] = table[4:-1:2]
    return model


@torch.no_grad()
def with_nan(model: Seq2Seq, pieces: int | slice) -> Seq2Seq:
    """Make everything NaN after these pieces."""
    model.embeddings.target.weight[pieces] = torch.nan
    return model


def random_kind(draw: random.Random) -> dict[str, Any]:
    """Random options that all sentences of a batch must share."""
    if draw.random() < 0.2:
        return {"name": "greedy"}
    return {
        "name": "beam",
        "beam_size": draw.choice([1, 2, 3, 4, 5, 8]),
        "penalty_form": draw.choice(["power", "gnmt"]),
        "stopping": draw.choice(["score", "score", "count"]),
    }


def random_search(draw: random.Random, kind: dict[str, Any]) -> Search:
    """A search of this kind, with random options of a single sentence."""
    options: dict[str, Any] = {
        "length_ratio": draw.choice([0.0, 1.0, 1.5]),
        "length_extra": draw.choice([1, 4, 10, 40]),
    }
    if draw.random() < 0.3:
        options["max_length"] = draw.choice([1, 3, 9])
    elif draw.random() < 0.5:
        options["min_length_extra"] = draw.randint(0, options["length_extra"])
    if kind["name"] == "beam":
        options["length_penalty"] = draw.choice([0.0, 0.6, 1.0, 2.0])
        options["patience"] = draw.choice([0.0, 0.3, 1.0, 1.0, 2.0])
    return build_search({**kind, **options})


def random_requests(draw: random.Random, kind: dict[str, Any], count: int) -> list[SentenceRequest]:
    rows = source_batch(*(draw.randint(1, 12) for _ in range(count))).tolist()
    return [
        SentenceRequest(
            [token for token in row if token != PAD],
            prefix=draw.choices((4, 5, certain(4), certain(5)), k=draw.choice([0, 0, 0, 1, 4])),
            search=random_search(draw, kind),
        )
        for row in rows
    ]


def translate(model: Seq2Seq, asked: Sequence[SentenceRequest], **options: Any) -> Answers:
    engine = Engine(model, build_search({"name": "greedy"}), **options)
    for request in asked:
        engine.check(request)
    answers = []
    for ended in engine.translate(map(replace, asked)):
        assert not ended.error
        answers.append(ended.hypotheses)
    return answers


def come_and_go(
    model: Seq2Seq, asked: Sequence[SentenceRequest], seed: int, **options: Any
) -> Answers:
    """Submit sentences a few at a time while others are decoded, and cancel some of them.

    Returns: the answers, None for sentences that were cancelled.
    """
    draw, engine = random.Random(seed), Engine(model, build_search({"name": "greedy"}), **options)
    requests = [replace(request) for request in asked]
    coming, here = requests[::-1], []
    while coming or engine.busy:
        if coming and draw.random() < 0.5:
            joining = [coming.pop() for _ in range(min(len(coming), draw.randint(1, 9)))]
            engine.submit(joining)
            here += joining
        if (open_ones := [each for each in here if not each.ended]) and draw.random() < 0.1:
            engine.cancel([draw.choice(open_ones)])
        engine.advance()
    return [request.hypotheses for request in requests]


def in_c(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The result of a function that must not search in Python."""

    def refused(*_: Any) -> None:
        raise AssertionError("this searches in Python")

    with monkeypatch.context() as patch:
        patch.setattr(BeamState, "advance", refused)
        patch.setattr(GreedyState, "advance", refused)
        return run()


def in_python(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The result of a function that searches in Python among native candidates."""
    with monkeypatch.context() as patch:
        patch.setattr(decoding_batch, "native_search", lambda *_: None)
        return run()


def assert_same(actual: Answers, expected: Answers, tolerance: float = 1e-12) -> None:
    """The same hypotheses in the same order, of the same probabilities; NaN equals NaN."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert (one is None) == (other is None)
        for mine, theirs in zip(one or [], other or [], strict=True):
            assert (mine.ids, mine.truncated) == (theirs.ids, theirs.truncated)
            assert mine.score == pytest.approx(theirs.score, rel=tolerance, nan_ok=True)
            exact = 0 if tolerance == 1e-12 else tolerance
            found = torch.tensor([mine.log_probability, *mine.token_logp], dtype=torch.float64)
            wanted = found.new_tensor([theirs.log_probability, *theirs.token_logp])
            torch.testing.assert_close(found, wanted, rtol=exact, atol=exact, equal_nan=True)


def compare(run: Callable[[], Answers], monkeypatch: pytest.MonkeyPatch) -> Answers:
    """The native result, after comparing it with that of Python."""
    found: Answers = in_c(run, monkeypatch)
    assert_same(found, in_python(run, monkeypatch))
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", MODELS)
def test_hypotheses_are_those_of_the_search_in_python(
    name: str, cache: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several kinds of searches, and other options for each sentence."""
    draw = random.Random(f"{name} {cache} {seed}")
    model = build(name, draw.choice(["float32", "int8"]), draw.choice([6, 11, 300]))
    asked = [
        request
        for kind in (random_kind(draw), random_kind(draw))
        for request in random_requests(draw, kind, 7)
    ]
    compare(lambda: translate(model, asked, **CACHES[cache]), monkeypatch)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("wrong", [slice(None), 7])
def test_the_hypotheses_of_a_model_that_diverged_are_those_of_python(
    name: str, wrong: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{name} {wrong} {seed}")
    model = with_precision(
        with_nan(build_exact(name).float(), wrong), draw.choice(["float32", "int8"])
    )
    asked = random_requests(draw, random_kind(draw), 7)
    for options in (CACHES["dense"], CACHES["paged"]):
        compare(partial(translate, model, asked, **options), monkeypatch)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
def test_ties_are_broken_as_in_python(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{name} {seed}")
    model = with_precision(with_twins(build_exact(name).float()), "float32")
    asked = random_requests(draw, {"name": "beam", "beam_size": draw.randint(4, 8)}, 7)
    answers = compare(lambda: translate(model, asked, **CACHES["dense"]), monkeypatch)
    scores = [h.score for found in answers for h in found or []]
    assert len(set(scores)) < len(scores)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cache", CACHES)
def test_sentences_that_come_and_go_get_the_same_answers(
    name: str, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, model = random.Random(f"{name} {cache}"), build(name, outputs=30)
    kinds = [{"name": "greedy"}, {"name": "beam", "beam_size": 8}]
    asked = [request for kind in kinds for request in random_requests(draw, kind, 15)]
    draw.shuffle(asked)
    together = translate(model, asked)
    run = partial(come_and_go, model, asked, 3, **CACHES[cache])
    # The native decoder may take several steps at once, so it cancels other sentences.
    for answers in (in_c(run, monkeypatch), in_python(run, monkeypatch)):
        left = [i for i, answer in enumerate(answers) if answer is not None]
        assert_same([answers[i] for i in left], [together[i] for i in left])
        assert 5 < len(left) < len(asked)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_preempted_sentences_get_the_same_answers(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, search = build("transformer", precision), {"name": "beam", "min_length_extra": 9}
    asked = [
        SentenceRequest(row.tolist(), search=build_search(search)) for row in source_batch(*[7] * 9)
    ]
    few = {"cache": "paged", "page_size": 2, "pages": 100}
    counts = []
    preempt = Engine._reserve
    monkeypatch.setattr(
        Engine, "_reserve", lambda self: (preempt(self), counts.append(self.stats.preempted))
    )
    answers = compare(partial(translate, model, asked, **few), monkeypatch)
    assert max(counts) > 0
    assert_same(answers, [translate(model, [request])[0] for request in asked])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
def test_hypotheses_are_those_of_a_naive_search_in_float64(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, exact = random.Random(f"{name} {seed}"), build_exact(name)
    model = with_precision(copy.deepcopy(exact).float(), "float32")
    kind = {**random_kind(draw), "beam_size": 3} if seed else {"name": "greedy"}
    asked = random_requests(draw, {**kind, "name": "beam"} if seed else kind, 3)
    answers = in_c(lambda: translate(model, asked), monkeypatch)
    expected: Answers = []
    for request in asked:
        assert request.search is not None
        logp = cache(next_logp(exact, torch.tensor(request.source)))
        case = Case(
            lambda ids, logp=logp: logp(tuple(ids)), len(request.source) - 1, [*request.prefix]
        )
        options = {f.name: getattr(request.search, f.name) for f in fields(request.search)}
        expected.append(naive(case, {**options, "name": kind["name"]}))
    assert_same(answers, expected, 1e-5)


class With(Phrase):
    """A guide that forbids a piece, and requires another twice."""

    def next_state(self, state: int, token: int) -> int:
        return min(2, state + (token == 8))

    def next_tokens(self, state: int) -> NextTokens:
        if state == 2:
            return NextTokens(torch.tensor([5]))
        return NextTokens(torch.tensor([EOS, 5]), required=[8, 9][: 2 - state])


class Only(Phrase):
    """A guide that allows a few first pieces, and anything after them."""

    def next_state(self, state: int, token: int) -> int:
        return 1

    def next_tokens(self, state: int) -> NextTokens:
        if state:
            return NextTokens(torch.tensor([], dtype=torch.int64))
        return NextTokens(torch.tensor([EOS]), torch.tensor([6, 7, 10]))

    def is_satisfied(self, state: int) -> bool:
        return state == 1


def with_constraints(
    draw: random.Random, plain: Sequence[SentenceRequest], kind: dict[str, Any]
) -> list[SentenceRequest]:
    """The same sentences, with constraints, forbidden repetitions, or both."""
    guides = [Phrase(False), Only(False), *([With(True)] if kind["name"] == "beam" else [])]
    return [
        replace(
            each,
            constraint=draw.choice(guides),
            search=replace(each.search, no_repeat_ngram=draw.choice([0, 0, 2, 3])),
        )
        for each in plain
        if each.search
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cache", ["dense", "paged"])
@pytest.mark.parametrize("name", ["transformer", "rnn"])
def test_constraints_are_those_of_the_search_in_python(
    name: str, cache: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{name} {cache} {seed}")
    model = build(name, draw.choice(["float32", "int8"]), 30 if seed else 300)
    beams = {"name": "beam", "beam_size": draw.choice([2, 3, 5, 8])}
    asked = []
    for kind in ({"name": "greedy"}, beams):
        plain = random_requests(draw, kind, 9)
        asked += [*plain, *with_constraints(draw, plain, kind)]
    draw.shuffle(asked)
    compare(lambda: translate(model, asked, **CACHES[cache]), monkeypatch)


@pytest.mark.parametrize("kind", [{"name": "greedy"}, {"name": "beam", "beam_size": 4}])
@pytest.mark.parametrize("cache", ["dense", "paged"])
def test_constrained_sentences_change_no_bit_of_the_others(
    cache: str, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in one batch, and no logits are written."""
    model, draw = build("transformer"), random.Random(0)
    plain = random_requests(draw, kind, 9)
    alone = in_c(lambda: translate(model, plain, **CACHES[cache]), monkeypatch)
    mixed = [*plain, *with_constraints(draw, plain, kind)]
    draw.shuffle(mixed)
    monkeypatch.setattr(base, "top_candidates", None)
    answers = in_c(lambda: translate(model, mixed, cache=cache), monkeypatch)
    found = {id(request): answer for request, answer in zip(mixed, answers, strict=True)}
    assert [found[id(request)] for request in plain] == alone
    for request in mixed:
        if type(request.constraint) in (Phrase, With):
            hypotheses = found[id(request)] or []
            assert all(5 not in h.ids[len(request.prefix) :] for h in hypotheses)


def test_searches_that_are_not_covered_stay_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    model, source = build("transformer"), source_batch(4, 2)
    monkeypatch.setattr(NativeSearch, "step", None)
    for options in (
        {"name": "beam", "beam_size": 33, "length_extra": 1},
        {"name": "beam", "beam_size": 2, "coverage": 0.1},
        {"name": "sample", "samples": 2},
        {"name": "diverse", "beam_size": 2, "beam_groups": 2},
    ):
        assert all(decode(model, source, build_search(options)))


def test_the_native_decoder_searches_with_thirty_two_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    model, draw = build("transformer", outputs=300), random.Random(0)
    asked = random_requests(draw, {"name": "beam", "beam_size": 32}, 3)
    compare(lambda: translate(model, asked), monkeypatch)

"""An ensemble decodes like a naive search over the mean of its members' probabilities."""

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from helpers.builders import (
    SOURCE_SIZE,
    TARGET_SIZE,
    model_config,
    randomised,
    small_model,
    source_batch,
    translate_copies,
)
from helpers.naive_search import Case, naive
from helpers.table_model import NextLogP, assert_same, make_requests, next_logp

from seq2seq.base.errors import ConfigError
from seq2seq.decoding import (
    Engine,
    Hypothesis,
    SentenceRequest,
    build_search,
    check_coverage,
    decode,
)
from seq2seq.decoding.options import Cache
from seq2seq.decoding.precision import with_precision
from seq2seq.models import Ensemble, Seq2Seq, build_model
from seq2seq.models.ensemble import Mean

SEARCHES = (
    {"name": "greedy", "length_ratio": 1.0, "length_extra": 4},
    {"name": "beam", "beam_size": 3, "length_ratio": 1.0, "length_extra": 4},
    {"name": "sample", "samples": 2, "seed": 5, "temperature": 0.8, "length_extra": 4},
)
MEANS: tuple[Mean, ...] = ("probabilities", "log-probabilities")
every_mean = pytest.mark.parametrize("mean", MEANS)
CACHES: tuple[Cache, ...] = ("dense", "paged")
every_cache = pytest.mark.parametrize("cache", CACHES)


def mixed() -> list[Seq2Seq]:
    """Models of different architectures, widths, depths and attentions."""
    return [
        small_model("transformer"),
        small_model("rnn", "model.dim=20", "attn=dot"),
        small_model("transformer", "model.dim=16", "model.decoder_layers=1", "attn=mla"),
    ]


def mean_of(each: Sequence[NextLogP], weights: Sequence[float], mean: Mean) -> NextLogP:
    """The mean of several distributions, computed in Python."""

    def logp(prefix: list[int]) -> list[float]:
        columns = list(zip(*(one(prefix) for one in each), strict=True))
        if mean == "probabilities":
            p = [
                sum(w * math.exp(x) for w, x in zip(weights, c, strict=True)) / sum(weights)
                for c in columns
            ]
        else:
            p = [
                math.exp(sum(w * x for w, x in zip(weights, c, strict=True)) / sum(weights))
                for c in columns
            ]
        return [math.log(x / sum(p)) for x in p]

    return logp


def prefixed_requests() -> list[SentenceRequest]:
    requests = enumerate(make_requests())
    return [replace(each, prefix=[7, 8][: i % 3], draw_id=i) for i, each in requests]


@pytest.mark.parametrize(
    "options, mean, cache",
    [
        # The normal tests meet each search, mean and cache.
        pytest.param(*case, marks=pytest.mark.slow if i % 5 else (), id=f"{case[0]['name']}-{i}")
        for i, case in enumerate(product(SEARCHES, MEANS, CACHES))
    ],
)
def test_an_ensemble_finds_what_a_naive_search_over_the_mean_finds(
    options: dict[str, object], mean: Mean, cache: Cache
) -> None:
    members, weights, requests = mixed(), (1.0, 0.5, 2.5), prefixed_requests()
    engine = Engine(Ensemble(members, weights, mean), build_search(options), cache=cache, rows=12)
    for request, found in zip(requests, translate_copies(engine, requests), strict=True):
        each = [next_logp(member, torch.tensor(request.source)) for member in members]
        case = Case(
            mean_of(each, weights, mean),
            len(request.source) - 1,
            list(request.prefix),
            draw_id=request.draw_id or 0,
        )
        assert_same(found, naive(case, options))


def test_an_ensemble_is_decoded_in_too_few_pages_for_all_sentences() -> None:
    ensemble, requests = Ensemble(mixed()), prefixed_requests()
    search = build_search(SEARCHES[1])
    expected = list(translate_copies(Engine(ensemble, search, cache="dense"), requests))
    longest = max(len(request.source) for request in requests)
    pages = ensemble.pages_for(4, longest, search.limit(longest - 1), search.beams)
    assert pages == mixed()[0].pages_for(4, longest, search.limit(longest - 1), search.beams)
    engine = Engine(ensemble, search, cache="paged", pages=pages, page_size=4)
    for found, right in zip(translate_copies(engine, requests), expected, strict=True):
        assert_same(found, right)
    assert engine.stats.preempted and engine.pool is not None
    assert engine.pool.free == engine.pool.pages


@every_mean
@every_cache
def test_copies_of_a_model_decode_as_the_model_does(mean: Mean, cache: Cache) -> None:
    model, requests = small_model("transformer"), prefixed_requests()
    search = build_search(SEARCHES[1])

    def translate(model: Seq2Seq) -> list[list[Hypothesis]]:
        return list(translate_copies(Engine(model, search, cache=cache), requests))

    joined = translate(Ensemble([model, model, model], [0.2, 0.3, 5.0], mean))
    for found, right in zip(joined, translate(model), strict=True):
        assert_same(found, right)


@pytest.mark.parametrize(
    "others",
    [
        ("rnn attn=fixed", "rnn_luong attn=local_p"),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                ("transformer attn=linear", "transformer attn=page_local"),
                ("transformer attn=performer position=none", "transformer attn=global_context"),
                ("transformer attn=linformer", "transformer attn=longformer"),
            )
        ),
    ],
    ids=" and ".join,
)
def test_members_may_have_memories_of_different_kinds(others: tuple[str, ...]) -> None:
    members = [small_model("transformer"), *(small_model(*name.split()) for name in others)]
    ensemble, requests = Ensemble(members), make_requests()
    found = {
        cache: list(
            translate_copies(
                Engine(ensemble, build_search(SEARCHES[1]), cache=cache, rows=9), requests
            )
        )
        for cache in CACHES
    }
    for request, dense, paged in zip(requests, found["dense"], found["paged"], strict=True):
        assert_same(paged, dense)
        source = torch.tensor(request.source)
        each = [next_logp(member, source) for member in members]
        case = Case(mean_of(each, [1, 1, 1], "probabilities"), len(source) - 1)
        assert_same(dense, naive(case, SEARCHES[1]))


def test_each_member_reads_the_groups_that_it_was_trained_with() -> None:
    marks = [torch.rand(SOURCE_SIZE, levels + 1) < 0.4 for levels in (1, 2)]
    plain = small_model("transformer")
    config = model_config("transformer", "attn=hierarchical_context")
    readers = [
        randomised(build_model(config, SOURCE_SIZE, TARGET_SIZE, group_marks=m)) for m in marks
    ]
    source = source_batch(7)
    for members in ([plain, *readers], [*readers[::-1], plain]):
        each = [next_logp(member, source[0]) for member in members]
        case = Case(mean_of(each, [1, 1, 1], "probabilities"), 6)
        (found,) = decode(Ensemble(members), source, build_search(SEARCHES[0]))
        assert_same(found, naive(case, SEARCHES[0]))


def test_a_search_with_coverage_reads_the_weights_of_the_first_member() -> None:
    first, *others = mixed()
    options = {"name": "beam", "beam_size": 3, "coverage": 0.4, "length_extra": 3}
    search, source = build_search({**options, "coverage_layer": 1}), source_batch(5, 3)
    ensemble = Ensemble([first, *others], [1e6, 1e-6, 1e-6])
    check_coverage(search, ensemble)
    for found, right in zip(
        decode(ensemble, source, search), decode(first, source, search), strict=True
    ):
        assert [h.ids for h in found] == [h.ids for h in right]
        assert [h.score for h in found] == pytest.approx([h.score for h in right], abs=1e-6)
    with pytest.raises(ConfigError, match="coverage_layer=1 should be at least -1 and less than 1"):
        check_coverage(search, Ensemble([*others, first]))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_every_member_is_converted_to_a_precision(precision: str) -> None:
    members = [member.float() for member in mixed()]
    source, search = source_batch(6, 3, 4), build_search(SEARCHES[0])
    found = decode(with_precision(Ensemble(members), precision), source, search)
    expected = decode(
        Ensemble([with_precision(member, precision) for member in members]), source, search
    )
    for one, other in zip(found, expected, strict=True):
        assert one[0].ids == other[0].ids
        assert one[0].log_probability == pytest.approx(other[0].log_probability, rel=1e-5)


def test_improbable_pieces_keep_a_finite_probability() -> None:
    members = [small_model("rnn").float() for _ in range(2)]
    with torch.no_grad():
        for member in members:
            member.embeddings.output.bias[5] = -500.0
    logits = Ensemble(members).logits(torch.randn(3, 64)).log_softmax(-1)
    assert logits.isfinite().all() and (logits[:, 5] < -400).all()


def test_the_limits_of_an_ensemble_are_those_of_its_shortest_member() -> None:
    position = "position=learned", "position.length=12"
    members = [small_model("rnn"), small_model("transformer", *position), small_model("rnn")]
    ensemble = Ensemble(members)
    assert ensemble.max_length == members[1].max_length == 12
    assert ensemble.max_source == members[1].max_source
    assert Ensemble(members[::2]).max_length is None


def test_an_ensemble_can_be_pickled() -> None:
    ensemble, source = Ensemble(mixed()), source_batch(5, 3)
    again = pickle.loads(pickle.dumps(ensemble))
    search = build_search(SEARCHES[1])
    assert decode(again, source, search) == decode(ensemble, source, search)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"1 weight\(s\) \[1.0\] for 2 models: give one for each"),
        ([1.0, 2.0, 3.0], "for 2 models"),
        ([1.0, -2.0], "the weight -2.0 of a model should be between"),
        ([0.0, 1.0], "If a model should not count, leave it out"),
        ([math.nan, 1.0], "the weight nan"),
        ([math.inf, 1.0], "the weight inf"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Ensemble([small_model("rnn"), small_model("rnn")], weights)


def test_an_unknown_mean_is_refused() -> None:
    with pytest.raises(ConfigError, match="mean='geometric' should be 'probabilities' or"):
        Ensemble([small_model("rnn")], mean="geometric")  # type: ignore[arg-type]

"""Each sentence is translated with the tokens of its own list, whatever its batch."""

import copy
import random
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
import torch
from helpers.builders import TARGET_SIZE, translate_copies
from helpers.naive_search import Case, naive
from helpers.native_code import needs_native
from helpers.native_models import (
    KINDS,
    SEARCHES,
    Phrase,
    assert_close,
    build,
    build_exact,
    on_torch,
)
from helpers.table_model import NextLogP, make_requests, next_logp

from seq2seq.base.symbols import EOS, UNK
from seq2seq.decoding import Engine, Hypothesis, SentenceRequest, build_search
from seq2seq.decoding.precision import with_precision
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.workers import Workers
from seq2seq.models import Ensemble, Seq2Seq
from seq2seq.models.candidates import CandidateRequest, top_candidates


def random_lists(sources: int = 64, size: int = 3, seed: int = 0) -> Shortlist:
    """A list of `size` tokens for each source id, and one token that may stand anywhere."""
    draw = random.Random(seed)
    lists = [sorted(draw.sample(range(UNK + 1, TARGET_SIZE), size)) for _ in range(sources)]
    lists.append([UNK + 1])
    ends = torch.tensor([0, *(len(tokens) for tokens in lists)]).cumsum(0)
    return Shortlist(ends, torch.tensor(sum(lists, []), dtype=torch.int32))


def translations(
    model: Seq2Seq, asked: list[SentenceRequest], search: str, **options: Any
) -> list[list[Hypothesis]]:
    engine = Engine(model, build_search(SEARCHES[search]), shortlist=random_lists(), **options)
    return list(translate_copies(engine, asked))


@needs_native
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("cache", ["dense", pytest.param("paged", marks=pytest.mark.slow)])
@pytest.mark.parametrize("variant", KINDS)
def test_the_native_decoder_translates_as_torch_with_masked_logits(
    variant: str, cache: str, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked = build(variant), make_requests()
    expected = translations(on_torch(model, "float32", monkeypatch), asked, search, cache=cache)
    fast = with_precision(model, "float32")
    assert_close(translations(fast, asked, search, cache=cache, rows=16), expected)


def among(listed: list[int], logp: NextLogP) -> NextLogP:
    """Log-probabilities of a softmax over some tokens alone."""

    def masked(prefix: list[int]) -> list[float]:
        values = torch.full((TARGET_SIZE,), -torch.inf, dtype=torch.float64)
        values[listed] = torch.tensor(logp(prefix), dtype=torch.float64)[listed]
        return values.log_softmax(-1).tolist()

    return masked


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("variant", KINDS)
def test_translations_are_those_of_a_naive_search_in_float64(variant: str, search: str) -> None:
    model, asked, lists = build_exact(variant), make_requests((6, 1, 4, 3)), random_lists()
    fast = with_precision(copy.deepcopy(model).float(), "float32")
    for request, found in zip(asked, translations(fast, asked, search), strict=True):
        logp = next_logp(model, torch.tensor(request.source))
        listed = lists.tokens(request.source).tolist()
        expected = naive(Case(among(listed, logp), len(request.source) - 1), SEARCHES[search])
        assert_close([found], [expected[: len(found)]])


@needs_native
@pytest.mark.parametrize("search", ["greedy", "beam", "diverse", "sample"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_texts_and_scores_do_not_depend_on_the_batch(precision: str, search: str) -> None:
    """Alone, together, shuffled, in pages that run out, beside prefixes and guides."""
    model = with_precision(build(KINDS[0]), precision)
    asked = [replace(each, draw_id=i) for i, each in enumerate(make_requests())]
    expected = [translations(model, [each], search)[0] for each in asked]
    order = random.Random(1).sample(range(len(asked)), len(asked))
    for options in ({"rows": 64}, {"cache": "paged", "rows": 8, "pages": 120, "page_size": 2}):
        assert translations(model, asked, search, **options) == expected
        found = translations(model, [asked[i] for i in order], search, **options)
        assert found == [expected[i] for i in order]
    special = [
        *(replace(each, prefix=[8, 6, 4, 9][:n]) for n, each in enumerate(make_requests()[:4])),
        *(replace(each, constraint=Listed(search == "beam")) for each in make_requests()[:3]),
    ]
    mixed = [each for pair in zip_longest(asked, special) for each in pair if each is not None]
    together = translations(model, mixed, search, cache="paged", rows=64)
    assert [f for each, f in zip(mixed, together, strict=True) if each in asked] == expected


class Listed(Phrase):
    def pieces(self) -> list[int]:
        return [7]


@pytest.mark.parametrize("search", SEARCHES)
def test_a_translation_consists_of_its_list_its_prefix_and_what_it_must_contain(
    search: str,
) -> None:
    model, lists = build(KINDS[0]), random_lists()
    asked = [replace(each, prefix=[9, 10]) for each in make_requests((6, 1, 4))]
    if search == "beam":
        asked += [replace(each, constraint=Listed(True)) for each in make_requests((5, 2))]
    for request, found in zip(asked, translations(model, asked, search), strict=True):
        listed = {*lists.tokens(request.source).tolist(), *request.prefix}
        listed |= {7} if request.constraint else set()
        for hypothesis in found:
            assert listed.issuperset(hypothesis.ids)
            assert hypothesis.ids[: len(request.prefix)] == [*request.prefix]
            assert 7 in hypothesis.ids or hypothesis.truncated or not request.constraint


@needs_native
def test_an_ensemble_and_workers_keep_to_the_lists() -> None:
    both = Ensemble([build(KINDS[0]), build(KINDS[1])]).eval()
    lists, asked, search = random_lists(), make_requests(), build_search(SEARCHES["beam"])
    for model in (both, build(KINDS[0])):
        fast = with_precision(model, "float32")
        expected = translations(fast, asked, "beam")
        for request, found in zip(asked, expected, strict=True):
            listed = set(lists.tokens(request.source).tolist())
            assert all(listed.issuperset(hypothesis.ids) for hypothesis in found)
    engine = Engine(fast, search, shortlist=lists)
    workers = Workers(engine, lambda: engine, 1)
    assert workers.shortlist is lists


def test_probabilities_are_normalized_over_the_list() -> None:
    logits = torch.tensor([[9.0, 9.0, 1.0, 9.0, 2.0, 3.0, 9.0], [0.0, 0, 0, 0, 5, 5, 0]])
    request = CandidateRequest(4, listed=torch.tensor([[EOS, 4, 5], [EOS, 6, -1]]))
    logp, ids = top_candidates(logits, request)
    assert ids[0, :3].tolist() == [5, 4, EOS] and set(ids[1, :2].tolist()) == {EOS, 6}
    assert logp.exp().sum(1).tolist() == pytest.approx([1, 1])
    assert logp[0, 3] == -torch.inf and logp[1, 2] == -torch.inf

"""Translations in which no n-gram occurs twice, compared with naive searches."""

from typing import Any

import pytest
import torch
from helpers.builders import small_model, source_batch, translate_copies
from helpers.naive_search import Case, naive
from helpers.table_model import TableModel, assert_same

from seq2seq.decoding import Engine, SentenceRequest, build_search, decode
from seq2seq.decoding.search import find_repeats

PREFIXES = [[], [4, 4, 4], [5, 6, 5], []]
SEARCHES: list[dict[str, Any]] = [
    {"name": "greedy", "length_ratio": 0.0, "length_extra": 12},
    {"name": "beam", "beam_size": 1, "length_penalty": 0.0},
    {"name": "beam", "beam_size": 4, "length_extra": 6},
    {"name": "beam", "beam_size": 3, "stopping": "count", "patience": 2.0},
    {"name": "diverse", "beam_size": 4, "beam_groups": 2, "length_extra": 4},
    {"name": "diverse", "beam_size": 6, "beam_groups": 3, "length_extra": 4},
    {"name": "diverse", "beam_size": 4, "length_extra": 4},
    {"name": "sample", "samples": 3, "top_k": 4},
    {"name": "sample", "samples": 2, "temperature": 2.0, "min_length_extra": 4},
]
every_search = pytest.mark.parametrize("options", SEARCHES, ids=str)


def cases(model: TableModel, source: torch.Tensor) -> list[Case]:
    return [
        Case(model.next_logp(int(row[0])), len(row) - 1, prefix, draw_id=draw_id)
        for draw_id, (row, prefix) in enumerate(zip(source, PREFIXES, strict=True))
    ]


@every_search
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_search_without_repeats_is_the_naive_one(options: dict[str, Any], size: int) -> None:
    options = {**options, "no_repeat_ngram": size}
    model, source = TableModel(8, seed=size, eos=-2.0), source_batch(*[9] * len(PREFIXES))
    results = decode(model, source, build_search(options), PREFIXES)
    for result, case in zip(results, cases(model, source), strict=True):
        assert_same(result, naive(case, options))
        for hypothesis in result:
            free = max(0, len(case.prefix) + 1 - size)  # n-grams that end behind the prefix
            ngrams = [tuple(hypothesis.ids[i : i + size]) for i in range(len(hypothesis.ids))]
            ngrams = [ngram for ngram in ngrams if len(ngram) == size]
            assert len(set(ngrams[free:])) == len(ngrams[free:])
            assert not set(ngrams[free:]) & set(ngrams[:free])


@pytest.mark.parametrize("cache", ["dense", "paged"])
@every_search
def test_sentences_of_one_batch_may_forbid_other_sizes(options: dict[str, Any], cache: str) -> None:
    model, source = small_model("transformer").double(), source_batch(9, 4, 7, 9, 2, 6)
    searches = [build_search({**options, "no_repeat_ngram": size}) for size in (0, 2, 1, 3, 0, 2)]
    requests = [
        SentenceRequest(row[row > 0].tolist(), search=search, draw_id=i)
        for i, (row, search) in enumerate(zip(source, searches, strict=True))
    ]
    engine = Engine(model, searches[0], cache=cache, rows=9, page_size=4)
    for request, result in zip(requests, translate_copies(engine, requests), strict=True):
        (alone,) = decode(
            model,
            torch.tensor([request.source]),
            request.search or searches[0],
            draw_ids=[request.draw_id or 0],
        )
        assert_same(result, alone)


def test_repeats_are_found_as_in_lists() -> None:
    tokens = torch.randint(3, 6, (60, 12), generator=torch.Generator().manual_seed(0))
    length, sizes = (torch.tensor([*values] * 10) for values in (range(7, 13), (2, 1, 0, 3, 4, 20)))
    length[:6] = torch.arange(6)
    expected = set()
    for row, (ids, limit, n) in enumerate(
        zip(tokens.tolist(), length, sizes.tolist(), strict=True)
    ):
        ids = ids[:limit]
        seen = [(*ids[i : i + n],) for i in range(len(ids) - n + 1) if n]
        expected |= {
            (row, token) for token in range(9) if (*ids[len(ids) - n + 1 :], token) in seen
        }
    assert {(row, token) for row, token in find_repeats(tokens, length, sizes).tolist()} == expected
    assert {row % 6 for row, _ in expected} == {0, 1, 3, 4}  # neither 0 nor more than there are

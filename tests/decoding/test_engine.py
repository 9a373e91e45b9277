"""An engine answers each sentence as if it were alone, whatever else is decoded with it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
import torch
from helpers.builders import small_model, translate_copies
from helpers.table_model import LENGTHS, TableModel, assert_same, make_requests

from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.decoding import Beam, Engine, Hypothesis, Search, SentenceRequest, build_search, decode
from seq2seq.decoding.request import Status
from seq2seq.models import Seq2Seq
from seq2seq.models.candidates import CandidateRequest, top_of_rows

CACHES = ("dense", "paged", "static")
every_cache = pytest.mark.parametrize("cache", CACHES)
every_model = pytest.mark.parametrize(
    "name", ["transformer", "rnn", pytest.param("rnn_luong", marks=pytest.mark.slow)]
)
every_search = pytest.mark.parametrize("beams", [1, 4])


def make_search(beams: int) -> Search:
    name = {"name": "greedy"} if beams == 1 else {"name": "beam", "beam_size": beams}
    return build_search({**name, "length_ratio": 1.5, "length_extra": 6})


def alone(
    model: Seq2Seq, requests: list[SentenceRequest], search: Search
) -> list[list[Hypothesis]]:
    return [decode(model, torch.tensor([r.source]), search, [r.prefix])[0] for r in requests]


def assert_all_same(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert_same(one, other)


def needed(model: Seq2Seq, search: Search) -> int:
    """The fewest pages in which the longest sentence can be decoded alone."""
    for pages in range(1, 1000):
        engine = Engine(model, search, cache="paged", pages=pages, page_size=4)
        try:
            engine.check(make_requests((max(LENGTHS),))[0])
        except ConfigError:
            continue
        return pages
    raise AssertionError("a thousand pages are not enough")


@every_cache
@every_model
@every_search
def test_translations_do_not_depend_on_how_many_are_decoded_at_once(
    cache: str, name: str, beams: int
) -> None:
    model, search, requests = small_model(name).double(), make_search(beams), make_requests()
    expected = alone(model, requests, search)
    for rows, window in ((1, 3), (12, 5), (320, 2000)):
        engine = Engine(model, search, cache=cache, rows=rows)
        engine.window = window
        assert_all_same(list(translate_copies(engine, requests)), expected)


@every_model
@every_search
def test_preempted_sentences_are_translated_all_the_same(name: str, beams: int) -> None:
    model, search, requests = small_model(name).double(), make_search(beams), make_requests()
    expected = alone(model, requests, search)
    minimum = needed(model, search)
    preempted = 0
    for pages in (minimum, minimum + 3, minimum * 2):
        engine = Engine(model, search, cache="paged", rows=64, pages=pages, page_size=4)
        assert_all_same(list(translate_copies(engine, requests)), expected)
        assert engine.pool is not None and engine.pool.free == pages
        preempted += engine.stats.preempted
        assert engine.stats.admitted == len(requests) + engine.stats.preempted
    # The pools were so small that some had to; the pages of an RNN hold only its sources.
    assert bool(preempted) == (name == "transformer")


SEARCHES_OF_CALLERS = (
    None,  # the engine's
    make_search(1),
    build_search({"name": "beam", "beam_size": 2, "length_penalty": 0.2, "length_extra": 3}),
    build_search({"name": "beam", "beam_size": 3, "patience": 2.0}),
    build_search({"name": "sample", "seed": 5, "temperature": 0.7, "top_p": 0.9}),
    build_search({"name": "sample", "seed": 6, "length_ratio": 0.5}),
)


@pytest.mark.parametrize(
    "cache, seed, calls",
    [
        *((cache, 0, 60) for cache in CACHES),
        *(
            pytest.param(*each, 1000, marks=pytest.mark.slow)
            for each in (*((cache, 0) for cache in CACHES), ("paged", 1), ("static", 1))
        ),
    ],
)
def test_every_caller_gets_its_answers_once_whatever_the_others_do(
    cache: str, seed: int, calls: int
) -> None:
    """Streams that are read in turn and closed early, and sentences submitted and cancelled, with
    searches that share a batch and searches that do not.
    """
    model, own, generator = small_model("transformer").double(), make_search(2), random.Random(seed)
    requests = [
        replace(request, search=search, draw_id=i)
        for i, request in enumerate(make_requests())
        for search in SEARCHES_OF_CALLERS
    ]
    expected = [
        decode(model, torch.tensor([r.source]), r.search or own, draw_ids=[r.draw_id or 0])[0]
        for r in requests
    ]
    engine = Engine(model, own, cache=cache, rows=9, page_size=4)
    engine.window = 5
    streams: list[Iterator[tuple[int, list[Hypothesis]]]] = []
    submitted: dict[SentenceRequest, int] = {}  # ours that are not cancelled
    done: set[SentenceRequest] = set()  # the others that `advance` has returned, too

    def stream() -> Iterator[tuple[int, list[Hypothesis]]]:
        order = generator.sample(range(len(requests)), 12)
        answers = translate_copies(engine, [requests[i] for i in order])
        yield from zip(order, answers, strict=True)

    def step() -> None:
        for request in engine.advance():
            assert request not in done and request.status is Status.DONE
            done.add(request)

    for _ in range(calls):
        choice = generator.choice(("stream", "read", "read", "close", "submit", "cancel", "step"))
        if choice == "stream" and len(streams) < 3:
            streams.append(stream())
        elif choice == "read" and streams:
            one = generator.choice(streams)
            for place, hypotheses in islice(one, generator.randrange(4)):
                assert_same(hypotheses, expected[place])
        elif choice == "close" and streams:
            streams.pop(generator.randrange(len(streams))).close()  # type: ignore[attr-defined]
        elif choice == "submit":
            place = generator.randrange(len(requests))
            request = replace(requests[place])
            engine.submit([request])
            submitted[request] = place
        elif choice == "cancel" and submitted:
            request = generator.choice([*submitted])
            ended = request.ended
            engine.cancel([request])
            assert request.status is (Status.DONE if ended else Status.CANCELLED)
            if not ended:
                del submitted[request]
        elif choice == "step":
            step()
    for one in streams:
        for place, hypotheses in one:
            assert_same(hypotheses, expected[place])
    while engine.busy:
        step()
    for request, place in submitted.items():
        assert_same(request.hypotheses or [], expected[place])
    assert engine.pool is None or engine.pool.used == 0


def test_searches_of_one_kind_share_a_batch() -> None:
    model, requests = small_model("transformer").double(), make_requests((5, 3, 4, 6))
    searches = [
        build_search({"name": "beam", "beam_size": 2, "length_penalty": a, "length_extra": n})
        for a, n in ((0.0, 4), (1.0, 9), (0.6, 6), (2.0, 12))
    ]
    engine = Engine(model, make_search(1))
    for request, search in zip(requests, searches, strict=True):
        request.search = search
        engine.submit([request])
    while engine.busy:
        engine.advance()
        assert len(engine._batches) <= 1
    for request, search in zip(requests, searches, strict=True):
        assert_same(request.hypotheses or [], alone(model, [request], search)[0])
    assert Beam(beam_size=2).kind != Beam(beam_size=3).kind != make_search(1).kind


@pytest.mark.parametrize("cache", ["dense", "paged"])
def test_a_cancelled_sentence_gives_its_pages_back_at_once(cache: str) -> None:
    engine = Engine(small_model("transformer"), make_search(3), cache=cache, page_size=4)
    first, second = make_requests((5, 9))
    engine.submit([first, second])
    engine.advance()
    assert first.status is second.status is Status.RUNNING
    used = 0 if engine.pool is None else engine.pool.used
    engine.cancel([second])
    assert engine.pool is None or 0 < engine.pool.used < used
    engine.cancel([first, first, *make_requests((3,))])
    assert not engine.busy and engine.advance() == []
    assert engine.pool is None or engine.pool.used == 0


@every_cache
def test_an_engine_continues_when_a_batch_holds_only_answered_sentences(cache: str) -> None:
    """Answered sentences stay in a dense batch until one in eight is done."""
    model, search = small_model("transformer"), make_search(1)
    engine, requests = Engine(model, search, cache=cache), make_requests((1, *[9] * 23))
    engine.submit(requests)
    while not (ended := engine.advance()):
        pass
    assert len(ended) < len(requests)
    engine.cancel(requests)
    found = list(translate_copies(engine, requests[:2]))
    assert_all_same(found, alone(model, requests[:2], search))
    assert not engine.busy


def test_sentences_start_in_the_order_in_which_they_arrive() -> None:
    engine = Engine(small_model("transformer"), make_search(1), cache="paged", rows=2)
    requests = make_requests((3, 9, 5, 7, 4))
    for request in requests:
        engine.submit([request])
    started: list[int] = []
    while engine.busy:
        engine.advance()
        started += [i for i in engine._started if i not in started]
    assert started == [request.id for request in requests]


@every_cache
def test_a_prefix_begins_the_translation(cache: str) -> None:
    model, search = small_model("transformer").double(), make_search(3)
    prefixes = [(), (5, 6), (7,), (5, 5, 5, 5)] * 3
    requests = [replace(r, prefix=p) for r, p in zip(make_requests(), prefixes, strict=True)]
    results = list(translate_copies(Engine(model, search, cache=cache, rows=12), requests))
    assert_all_same(results, alone(model, requests, search))
    for hypotheses, prefix in zip(results, prefixes, strict=True):
        assert all(tuple(h.ids[: len(prefix)]) == prefix for h in hypotheses)


@every_cache
def test_no_more_is_read_ahead_than_was_allowed(cache: str) -> None:
    read = 0

    def count() -> Iterator[SentenceRequest]:
        nonlocal read
        for request in map(replace, make_requests() * 3):
            read += 1
            yield request

    engine = Engine(small_model("transformer"), make_search(2), cache=cache, rows=4)
    engine.window = 6
    for answered, _ in enumerate(engine.translate(count())):
        # those that are decoded, and those that wait
        assert read <= answered + 2 * 6
    assert answered == read - 1 == 3 * len(LENGTHS) - 1


@every_cache
def test_an_engine_can_be_used_again_after_a_stream_is_closed(cache: str) -> None:
    model, search, requests = (small_model("transformer").double(), make_search(2), make_requests())
    engine = Engine(model, search, cache=cache, rows=8)
    answers = engine.translate(requests)
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert not engine.busy
    assert engine.pool is None or engine.pool.used == 0
    assert_all_same(list(translate_copies(engine, requests)), alone(model, requests, search))


@every_cache
def test_nothing_to_translate_gives_nothing(cache: str) -> None:
    engine = Engine(small_model("transformer"), make_search(2), cache=cache)
    assert list(engine.translate([])) == [] and engine.advance() == []


def test_a_sentence_that_can_never_fit_is_refused_at_once() -> None:
    engine = Engine(small_model("transformer"), make_search(4), cache="paged", pages=20)
    engine.check(make_requests((3,))[0])
    with pytest.raises(ConfigError, match=r"400 pieces .* pages, but there are only 20"):
        engine.check(make_requests((400,))[0])


@every_cache
def test_the_engine_counts_what_it_did(cache: str) -> None:
    model, search, requests = small_model("transformer"), make_search(4), make_requests()
    engine = Engine(model, search, cache=cache, rows=16)
    results = list(translate_copies(engine, requests))
    stats = engine.stats
    assert stats.sentences == stats.admitted == len(requests)
    assert stats.tokens == sum(len(hypotheses[0].token_logp) for hypotheses in results)
    assert stats.steps <= stats.live <= stats.rows <= 16 * stats.steps
    assert (stats.held >= stats.written > 0) == (cache == "paged")
    assert f"{len(requests)} sentences, {stats.tokens} tokens" in str(stats)


@pytest.mark.parametrize("V", [5, 100, 1999, 2000])
@pytest.mark.parametrize("count", [1, 3, 10])
def test_the_best_of_a_row_are_those_of_topk(V: int, count: int) -> None:
    generator = torch.Generator().manual_seed(V)
    # few different values, so that many are equal
    x = torch.randint(0, 9 if count == 3 else 10**6, (17, V), generator=generator).double()
    x[0] = -torch.inf
    x[1, : V // 2] = -torch.inf
    expected = x.topk(min(count, V))
    values, columns = top_of_rows(x, count)
    assert torch.equal(values, expected.values)
    assert torch.equal(x.gather(1, columns), values)
    for row in columns.tolist():
        assert len(set(row)) == len(row), "no column counts twice"


def test_bans_and_required_tokens_change_the_candidates_of_their_rows_only() -> None:
    model, hidden = TableModel(9), torch.randn(3, 9, dtype=torch.float64)
    hidden[:, 8] = 9.0  # the best everywhere
    logp = hidden.log_softmax(-1)
    banned = torch.tensor([[1, 8], [1, 7]])
    required = torch.tensor([[5, -1], [8, 6], [8, 4]])
    request = CandidateRequest(2, banned=banned, required=required)
    values, ids = model.candidates(hidden, request)
    assert ids[:, 0].tolist()[::2] == [8, 8] and not {7, 8}.intersection(ids[1, :2].tolist())
    for row, tokens in enumerate(required.tolist()):
        for column, token in enumerate(tokens, start=2):
            value = values[row, column]
            if token < 0 or token in ids[row, :2] or [row, token] in banned.tolist():
                assert value == -torch.inf
            else:
                assert ids[row, column] == token and value == logp[row, token]


@every_cache
def test_an_error_drops_all_sentences_and_tells_every_caller(
    cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, search, requests = (small_model("transformer").double(), make_search(2), make_requests())
    engine = Engine(model, search, cache=cache, rows=8)
    answers = translate_copies(engine, requests)
    next(answers)
    engine.submit([requests[0]])
    with monkeypatch.context() as patched:
        patched.setattr(model, "decode", lambda *_: torch.ones(2) @ torch.ones(3))
        with pytest.raises(RuntimeError, match="size"):
            engine.advance()
    assert not engine.busy and (engine.pool is None or engine.pool.used == 0)
    assert requests[0].status is Status.FAILED and isinstance(requests[0].error, Seq2SeqError)
    assert "dropped all requests" in str(requests[0].error)
    with pytest.raises(Seq2SeqError, match="dropped all requests"):
        list(answers)
    assert_all_same(list(translate_copies(engine, requests)), alone(model, requests, search))

"""The static step: the same calls at every step, no wait, and the translations of today's loop."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.builders import every_attention, marked, small_model, source_batch, translate_copies
from helpers.dispatch import NoWait, Trace
from helpers.table_model import assert_same, make_requests

from seq2seq.decoding import Engine, SentenceRequest, build_search, decode
from seq2seq.decoding.constraints.lexical import Constraint
from seq2seq.decoding.decoding_batch import DecodingBatch
from seq2seq.decoding.device import SlotBatch, SlotStore
from seq2seq.decoding.device.buffers import Size, Space
from seq2seq.decoding.search import SentenceOptions
from seq2seq.decoding.stats import Stats
from seq2seq.models import Seq2Seq

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"name": "greedy"},
    "beam": {"name": "beam", "beam_size": 3, "no_repeat_ngram": 2, "min_length_extra": 3},
    "diverse": {"name": "diverse", "beam_size": 4, "beam_groups": 2},
    "sample": {"name": "sample", "samples": 2, "top_k": 5, "top_p": 0.9},
}
# These keep a window or buckets of tokens, or decode several models.
NOT_COVERED = {"longformer", "page_local", "reformer"}
POSITIONS = ("sinusoidal", "learned", "rope", "alibi", "t5", "transformer_xl", "none")


def started(model: Seq2Seq, search: str, prefix: tuple[int, ...] = ()) -> SlotBatch:
    """A batch of three sentences that are still open after ten steps."""
    options = {**SEARCHES[search], "min_length_extra": 30, "length_extra": 50}
    rule = build_search(options)
    batch = SlotBatch(model.eval(), rule.kind, 8, SlotStore(), Stats())
    sentences = [SentenceOptions(rule, prefix, draw_id=i) for i in range(3)]
    batch.join(source_batch(4, 7, 5), range(3), sentences)
    return batch


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    "variant",
    [
        "transformer",
        "transformer attn=mla position=rope",
        "transformer position=transformer_xl",
        "rnn",
        "transformer attn=linear",
    ],
)
@torch.no_grad()
def test_every_step_issues_the_same_calls_on_the_same_addresses(variant: str, search: str) -> None:
    """Then a graph that is captured once can be replayed for all steps."""
    batch = started(small_model(*variant.split()), search, prefix=(5, 6))
    traces = []
    for _ in range(8):
        with Trace() as trace:
            batch.run(batch.size)
        traces.append(trace.calls)
    assert len(traces[1]) > 50
    for calls in traces[2:]:
        assert calls == traces[1]


@pytest.mark.parametrize("search", SEARCHES)
@torch.no_grad()
def test_no_step_waits_for_the_device(search: str) -> None:
    batch = started(small_model("transformer"), search, prefix=(5, 6))
    with NoWait():
        for _ in range(4):
            batch.run(batch.size)


@torch.no_grad()
def test_no_wait_finds_the_waits_of_the_other_loop() -> None:
    """The check can fail: a step whose search is on the host reads its candidates."""
    rule = build_search(SEARCHES["beam"])
    batch = DecodingBatch(small_model("transformer").eval(), rule)
    batch.join(source_batch(4, 7), range(2), [SentenceOptions(rule)] * 2)
    with pytest.raises(AssertionError, match="waits for the device"), NoWait():
        for _ in range(4):
            batch.step()


def variants() -> Iterator[str]:
    yield from every_attention()
    for position in POSITIONS:
        yield f"transformer attn=gqa position={position}"
    yield from ("rnn", "rnn_luong", "transformer attn=mla position=alibi")


@pytest.mark.parametrize("variant", marked(variants(), slow=("rnn attn=", "rnn_luong attn=")))
def test_models_translate_in_slots_as_in_whole_batches(variant: str) -> None:
    model = small_model(*variant.split()).double().eval()
    search, requests = build_search(SEARCHES["beam"]), make_requests((6, 1, 4, 9, 3))
    engine = Engine(model, search, cache="static", rows=6)
    words = {word.partition("=")[2] for word in variant.split()}
    has_slot_search = "rnn" in variant or not words & NOT_COVERED
    assert (engine.slots is not None) == has_slot_search
    for answer, request in zip(translate_copies(engine, requests), requests, strict=True):
        assert_same(answer, decode(model, torch.tensor([request.source]), search)[0])


def poison(batch: SlotBatch) -> None:
    """Fill the slots without a sentence with NaN, or with numbers that no token has."""
    taken = {seat.slot for seat in batch._seats.values()}
    free = [slot for slot in range(batch.size.slots) if slot not in taken]
    for name, buffer in batch.buffers.tensors.items():
        if buffer.is_floating_point():
            buffer[free] = torch.nan
        elif name in ("chosen", "said", "parents", "ends"):
            buffer[free] = 1


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("variant", ["transformer", "rnn", "transformer attn=linear"])
def test_unused_slots_change_nothing_whatever_they_hold(variant: str, search: str) -> None:
    model = small_model(*variant.split()).double().eval()
    rule, requests = build_search(SEARCHES[search]), make_requests((6, 2, 4, 9, 3, 5, 8))
    requests = [replace(request, draw_id=i) for i, request in enumerate(requests)]
    engine = Engine(model, rule, cache="static", rows=4 * rule.beams)
    engine.submit(requests)
    while engine.busy:
        engine.advance()
        for batch in engine._slot_batches.values():
            if len(batch):
                poison(batch)
    for i, request in enumerate(requests):
        expected = decode(model, torch.tensor([request.source]), rule, draw_ids=[i])[0]
        assert_same(request.hypotheses or [], expected)


def test_sentences_give_way_where_memory_is_short() -> None:
    model, search = small_model("transformer").double().eval(), build_search(SEARCHES["beam"])
    long = replace(search, min_length_extra=40, length_extra=60)
    requests = [replace(r, search=long) for r in make_requests((6, 2, 4, 9))]
    expected = [decode(model, torch.tensor([r.source]), long)[0] for r in requests]
    engine = Engine(model, search, cache="static", rows=12)
    engine.submit([replace(requests[0])])
    engine.advance()
    (batch,) = engine._slot_batches.values()
    assert engine.slots is not None
    # As much as all four need at first, but not once they are longer than 32 tokens.
    four = batch.size._replace(slots=4)
    engine.slots.limit = 2 * batch.buffers.nbytes(four) + 1
    assert not engine.slots.fits(batch, batch.buffers.nbytes(four._replace(room=64)))
    while engine.busy:
        engine.advance()
    for answer, hypotheses in zip(translate_copies(engine, requests), expected, strict=True):
        assert_same(answer, hypotheses)
    assert engine.stats.preempted > 0


@pytest.mark.parametrize("name", ["beam", "diverse"])
def test_a_cancelled_sentence_stays_done_while_others_go_on(name: str) -> None:
    """If it went on, it would leave the buffers, which have room for the other sentences only."""
    model = small_model("transformer").double().eval()

    def requests(count: int, length: int) -> list[SentenceRequest]:
        rule = build_search(
            {"name": name, "beam_size": 2, "length_extra": length, "min_length_extra": length - 2}
        )
        return [replace(each, search=rule) for each in make_requests((4, 6, 5)[:count])]

    (old,), others = requests(1, 100), requests(3, 25)
    engine = Engine(model, build_search({"name": name, "beam_size": 2}), cache="static", rows=8)
    engine.submit([old])
    for _ in range(20):
        engine.advance()
    engine.submit(others)
    engine.advance()
    engine.cancel([old])
    while engine.busy:
        engine.advance()
    for request in others:
        assert request.search is not None
        expected = decode(model, torch.tensor([request.source]), request.search)[0]
        assert_same(request.hypotheses or [], expected)


def test_a_sentence_that_needs_too_much_memory_is_decoded_with_pages() -> None:
    model, search = small_model("transformer").double().eval(), build_search(SEARCHES["beam"])
    engine = Engine(model, search, cache="static")
    assert engine.slots is not None
    engine.slots.limit = 0
    (request,) = make_requests((5,))
    (answer,) = translate_copies(engine, [request])
    assert_same(answer, decode(model, torch.tensor([request.source]), search)[0])
    assert engine.pool is not None and engine.pool.high_water > 0


def test_the_spaces_used_least_make_room_for_others() -> None:
    store, made = SlotStore(100), []

    def space(key: str) -> Any:
        made.append(key)
        return key

    for key in "abcabd":
        store.find(key, Size(), 30, lambda key=key: space(key))  # type: ignore[misc]
    assert "".join(made) == "abcd"  # three fit; `c` gives way to `d`
    store.find("c", Size(), 30, lambda: space("c"))
    store.find("b", Size(), 30, lambda: space("b"))
    assert "".join(made) == "abcdc"


def test_batches_share_the_memory_of_an_engine() -> None:
    store = SlotStore(120)
    assert store.fits("a", 60) and not store.fits("a", 61)
    store.find("a", Size(), 60, lambda: Space({}, lambda: None))
    assert store.fits("a", 60) and store.fits("b", 40) and not store.fits("b", 41)
    store.holders.discard("a")
    assert store.fits("b", 60)


def test_requests_with_a_constraint_are_decoded_beside_the_slots(tmp_path: Any) -> None:
    class Guide:
        requires = False

        def next_state(self, state: int, token: int) -> int:
            return 0

        def next_tokens(self, state: int) -> Any:
            from seq2seq.decoding.constraints.guide import NextTokens

            return NextTokens(torch.tensor([7]))

        def pieces(self) -> list[int]:
            return []

        def is_satisfied(self, state: int) -> bool:
            return False

        def progress(self, state: int) -> int:
            return 0

    model, search = small_model("transformer").double().eval(), build_search(SEARCHES["beam"])
    free = make_requests((5, 6))
    guided = [SentenceRequest(r.source, constraint=Constraint()) for r in free]
    engine = Engine(model, search, lambda _: Guide(), cache="static")
    engine.submit([*free, *guided])
    engine.advance()
    assert {in_slots for _, in_slots in engine._batches} == {True, False}
    while engine.busy:
        engine.advance()
    for request in free:
        assert_same(
            request.hypotheses or [], decode(model, torch.tensor([request.source]), search)[0]
        )
    for request in guided:
        assert request.hypotheses and all(7 not in h.ids for h in request.hypotheses)


def test_the_best_hypothesis_so_far_is_that_of_the_other_loop() -> None:
    model, rule = small_model("transformer").double().eval(), build_search(SEARCHES["beam"])
    source, options = source_batch(6), [SentenceOptions(rule)]
    slots = SlotBatch(model, rule.kind, 8, SlotStore(), Stats())
    other = DecodingBatch(model, rule)
    with torch.no_grad():
        slots.join(source, [0], options)
        other.join(source, [0], options)
        for _ in range(4):
            slots.step(), other.step()
            assert slots.best_so_far(0) == other.best_so_far(0)

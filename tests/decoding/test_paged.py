"""Paged memories and slabs, compared with dense rows while sentences come, fork and leave."""

import random

import pytest
import torch
from helpers.builders import (
    assert_equal,
    every_attention,
    every_other,
    marked,
    small_model,
    source_batch,
    translate_copies,
)
from torch import Tensor

from seq2seq.attention.page_pool import PagePool
from seq2seq.attention.paged import PagedMemory
from seq2seq.base.symbols import BOS, PAD
from seq2seq.decoding import Engine, SentenceRequest
from seq2seq.decoding.greedy import Greedy
from seq2seq.models import DecodeState, Seq2Seq

VARIANTS = every_attention()
VARIANTS += [
    "transformer position=learned",
    "transformer position=alibi",
    "transformer position=t5",
    "transformer position=transformer_xl",
    "transformer position=rope",
    "transformer attn=mla position=rope",
    "transformer attn=gaussian position=t5",
    "transformer attn=page_local position=rope",
    "transformer attn=page_local position=t5",
    "transformer attn=longformer position=alibi",
    "transformer attn=reformer position=rope",
    "transformer attn=performer attn@cross_attn=performer",
    "transformer attn@decoder_attn=gqa attn@cross_attn=mla",
    "rnn model.cell=lstm model.layers=2",
]


def check_pages(pool: PagePool) -> None:
    """Every page is either free or taken, and once."""
    assert sorted([*pool._free, *pool._taken]) == list(range(pool.pages))


class Poisoned(PagePool):
    """Slots that are not yet written, or released, hold NaN."""

    def array(self, layer: int, name: str, like: Tensor) -> Tensor:
        known = len(self.arrays)
        array = super().array(layer, name, like)
        return array.fill_(torch.nan) if len(self.arrays) > known else array

    def release(self, pages: list[int]) -> None:
        super().release(pages)
        for array in self.arrays.values():
            array.unflatten(1, (self.pages, -1))[:, pages] = torch.nan


@pytest.fixture
def write_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that each slot of a poisoned pool holds NaN until it is written."""
    append = PagedMemory.append

    def checked(memory: PagedMemory, streams: dict[str, Tensor]) -> None:
        slots = memory.table.new.slots.flatten()
        assert len(slots.unique()) == len(slots)
        for name, x in streams.items():
            array = memory.table.pool.array(memory.layer, name, x)
            assert array[:, slots].isnan().all()
        append(memory, streams)

    monkeypatch.setattr(PagedMemory, "append", checked)


class Pair:
    """A state of many sentences, paged or in slabs, and the same sentences alone, in dense rows."""

    def __init__(self, model: Seq2Seq, beams: int, pool: PagePool | None) -> None:
        self.model, self.beams, self.pool = model, beams, pool
        self.state: DecodeState | None = None
        self.alone: list[DecodeState] = []

    def enter(self, lengths: list[int]) -> None:
        """Admit sentences of these lengths."""
        source = source_batch(*lengths)
        state = self.model.start(self.model.encode(source), self.beams, self.pool)
        for row, length in zip(source, lengths, strict=True):
            encoded = self.model.encode(row[:length].expand(self.beams, -1))
            self.alone.append(self.model.start(encoded))
        if self.state is None:
            self.state = state
        else:
            self.state.merge(state)

    def step(self, n: int) -> None:
        assert self.state is not None
        N = len(self.alone) * self.beams
        tokens = torch.randint(BOS, 11, (N, n))
        together = self.model.step(tokens, self.state).hidden
        alone = [
            self.model.step(rows, one).hidden
            for rows, one in zip(tokens.split(self.beams), self.alone, strict=True)
        ]
        assert together.isfinite().all()
        assert_equal(together, torch.cat(alone), 1e-12)
        best = self.model.logits(together).argmax(-1)
        assert torch.equal(best, self.model.logits(torch.cat(alone)).argmax(-1))

    def fork(self) -> None:
        assert self.state is not None
        beams = torch.randint(self.beams, (len(self.alone), self.beams))
        first = self.beams * torch.arange(len(self.alone))[:, None]
        self.state.fork((first + beams).flatten())
        for one, parents in zip(self.alone, beams, strict=True):
            one.fork(parents)

    def keep(self) -> None:
        assert self.state is not None
        chosen = sorted(random.sample(range(len(self.alone)), random.randint(1, len(self.alone))))
        self.state.keep(torch.tensor(chosen))
        self.alone = [self.alone[i] for i in chosen]

    def check(self) -> None:
        """No page is lost, and none has two owners."""
        assert self.state is not None and self.pool is not None
        check_pages(self.pool)
        owned = [page for t in self.state._tables for pages in t.owned for page in pages]
        assert len(set(owned)) == len(owned) == self.pool.used


def nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.long)


def at_random(model: Seq2Seq, beams: int, size: int, steps: int = 9) -> PagePool:
    """Sentences enter, grow, fork and leave in any order. Returns: the pool when all have left."""
    pool = Poisoned(400, size)
    pair = Pair(model, beams, pool)
    pair.enter([5, 1])
    for _ in range(steps):
        verb = random.choice(["enter", "step", "step", "step", "fork", "fork", "keep"])
        if verb == "enter":
            pair.enter([random.randint(1, 9) for _ in range(random.randint(1, 3))])
        elif verb == "step":
            pair.step(random.choice([1, 1, 1, 2, 5]))
        else:
            getattr(pair, verb)()
        pair.check()
    pair.step(1)
    for _ in range(2):  # an empty state is one that others can join
        assert pair.state is not None
        pair.state.keep(nothing())
        pair.alone = []
        pair.check()
        assert pool.used == 0
        pair.enter([4, 2])
        pair.step(2)
        pair.step(1)
    pair.state.keep(nothing())
    return pool


@pytest.mark.parametrize("variant", every_other(VARIANTS))
@pytest.mark.usefixtures("write_once")
@torch.no_grad()
def test_sentences_in_pages_continue_as_if_alone(variant: str) -> None:
    model = small_model(*variant.split())
    if not model.can_merge:
        pool, encoded = Poisoned(9, 4), model.encode(source_batch(3))
        with pytest.raises(ValueError, match="rows of one length"):
            model.start(encoded, 1, pool).merge(model.start(encoded, 1, pool))
        return
    for beams, size in ((1, 4), (3, 2)):
        assert at_random(model, beams, size).used == 0


@pytest.mark.parametrize("variant", every_other(VARIANTS))
@torch.no_grad()
def test_sentences_in_slabs_continue_as_if_alone(variant: str) -> None:
    model = small_model(*variant.split())
    for beams in (1, 3):
        pair = Pair(model, beams, None)
        pair.enter([5, 1, 9, 4])
        for _ in range(9):
            pair.step(random.choice([1, 1, 1, 2, 5]))
            if random.random() < 0.7:
                pair.fork()
            if random.random() < 0.2:
                pair.keep()


@pytest.mark.parametrize("preset", ["page_local", "longformer"])
def test_windows_are_decoded_in_dense_batches_whatever_the_cache(preset: str) -> None:
    model = small_model("transformer", f"attn={preset}")
    requests = [SentenceRequest(row[row != PAD].tolist()) for row in source_batch(9, 2, 5, 7, 3)]
    dense, paged = (Engine(model, Greedy(), cache=cache, rows=2) for cache in ("dense", "paged"))
    assert paged.pool is None
    assert list(translate_copies(paged, requests)) == list(translate_copies(dense, requests))
    assert Engine(small_model("transformer"), Greedy(), cache="paged").pool is not None


@torch.no_grad()
def test_a_pool_that_is_too_small_refuses_and_stays_unchanged() -> None:
    model = small_model("transformer")
    pool, source = Poisoned(7, 4), source_batch(5, 3)
    # the sources take two pages and one, the first token of every row one
    state = model.start(model.encode(source), 2, pool)
    assert pool.used == 3 and state.written == 5 + 3
    assert state.reserve(1) and pool.used == 7
    for tokens in torch.full((4, 4), BOS).split(1, dim=1):
        before = model.step(tokens, state).hidden
    assert state.written == 5 + 3 + 4 * 4 and pool.free == 0
    assert not state.reserve(1) and pool.used == 7
    with pytest.raises(ValueError, match="too few pages for 1 more tokens of 2 sentences"):
        model.step(tokens, state)
    with pytest.raises(ValueError, match="0 pages of 4 tokens are free"):
        model.start(model.encode(source), 2, pool)
    check_pages(pool)
    # When one sentence leaves, the other goes on where it was.
    state.keep(torch.tensor([1]))
    assert pool.used == 3 and state.reserve(4) and not state.reserve(13)
    expected = model(source[1:, :3].expand(2, -1), torch.full((2, 5), BOS)).hidden
    assert_equal(before[2:, -1], expected[:, 3], 1e-12)
    assert_equal(model.step(tokens[2:], state).hidden[:, -1], expected[:, 4], 1e-12)
    state.keep(nothing())
    assert pool.free == 7 and pool.high_water == 7


@pytest.mark.parametrize("variant", marked(VARIANTS))
@torch.no_grad()
def test_a_sentence_takes_the_predicted_number_of_pages(variant: str) -> None:
    model = small_model(*variant.split())
    for size, beams, target in ((4, 1, 8), (3, 2, 7)):
        pool = PagePool(100, size)
        state = model.start(model.encode(source_batch(5)), beams, pool)
        assert state.reserve(target)
        assert pool.used == model.pages_for(size, 5, target, beams)
        state.keep(nothing())
        assert pool.used == 0


@torch.no_grad()
def test_self_and_cross_attention_share_their_storage_where_sizes_agree() -> None:
    for variant, streams in (("mha", 2), ("mla", 1), ("gqa attn@cross_attn=mha", 4)):
        model, pool = small_model("transformer", *f"attn={variant}".split()), PagePool(20, 4)
        state = model.start(model.encode(source_batch(5)), 1, pool)
        model.step(torch.tensor([[BOS]]), state)
        assert len(pool.arrays) == 2 * streams  # of two layers


@torch.no_grad()
def test_states_of_other_beams_or_pools_do_not_merge() -> None:
    model, pool = small_model("transformer"), PagePool(100, 4)
    encoded = model.encode(source_batch(5, 3))
    state = model.start(encoded, 2, pool)
    for other, message in (
        (model.start(encoded, 3, pool), "3 beams cannot join one of 2"),
        (model.start(encoded, 2, PagePool(100, 4)), "no pool in common"),
        (model.start(encoded, 2), "no pool in common"),
    ):
        with pytest.raises(ValueError, match=message):
            state.merge(other)
    with pytest.raises(ValueError, match="rows of one length"):
        model.start(encoded, 2).merge(model.start(encoded, 2))


def test_a_pool_gives_all_or_nothing_and_releases_a_page_once() -> None:
    pool = PagePool(5, 8)
    first, second = pool.alloc(2), pool.alloc(3)
    assert first is not None and second is not None
    assert sorted(first + second) == list(range(5)) and pool.alloc(0) == []
    pool.release(first)
    assert pool.alloc(3) is None and (pool.free, pool.used, pool.high_water) == (2, 3, 5)
    with pytest.raises(KeyError):
        pool.release(first)

"""Batches of pairs that are segmented differently in every epoch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_runs import corpus as demo_corpus

from seq2seq.base.symbols import PAD
from seq2seq.data.augment.subword_regularization import SubwordRegularization
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import Prepared, prepare

RECIPE = {"name": "bpe", "vocab_size": 400, "joint": True}
LONGEST, TOKENS = 40, 300


@pytest.fixture(scope="module")
def prepared(base: Path) -> Prepared:
    folder = demo_corpus(base)
    train = {"all": {"path": str(folder / "train"), "tag": "de"}}
    options = DataOptions(
        name="demo",
        source="de",
        target="en",
        train=train,
        valid=str(folder / "valid"),
        max_length=LONGEST,
        max_tokens=TOKENS,
        cache=str(folder / "cache"),
    )
    return prepare(options, RECIPE)


def regularization_of(prepared: Prepared, p: float = 0.1, seed: int = 1) -> SubwordRegularization:
    tokenizers = prepared.tokenizers
    return SubwordRegularization(prepared.train, tokenizers, p=p, seed=seed, max_length=LONGEST)


def loader_of(prepared: Prepared, rank: int = 0, world: int = 1, steps: int = 1) -> BatchLoader:
    return BatchLoader(
        prepared.train,
        max_tokens=TOKENS,
        seed=1,
        rank=rank,
        world=world,
        steps=steps,
        variants=regularization_of(prepared),
    )


def texts(prepared: Prepared, batches: list[Batch], side: str) -> dict[int, str]:
    """The text of each row."""
    tokenizer = getattr(prepared.tokenizers, side)
    return {
        row: text
        for batch in batches
        for row, text in zip(
            batch.indices, tokenizer.decode_batch(getattr(batch, side).tolist()), strict=True
        )
    }


def test_an_epoch_has_the_same_sentences_in_other_pieces(prepared: Prepared) -> None:
    plain = list(BatchLoader(prepared.train, max_tokens=TOKENS, seed=1))
    loader = loader_of(prepared)
    first, second = list(loader), list(loader)
    for side in ("source", "target"):
        assert texts(prepared, first, side) == texts(prepared, plain, side)
    view, other = (loader.rows(epoch) for epoch in (0, 1))
    rows = range(len(prepared.train))
    same = [list(view.target(row)) == list(other.target(row)) for row in rows]
    assert sum(same) < len(same) / 4
    pieces = [sum(batch.total for batch in epoch) for epoch in (plain, first, second)]
    assert pieces[0] < pieces[1] != pieces[2] > pieces[0]


def test_the_tag_of_a_corpus_is_never_cut(prepared: Prepared) -> None:
    tag = prepared.tokenizers.source.tag_id("de")
    for batch in loader_of(prepared):
        assert (batch.source[:, 0] == tag).all()


def test_no_batch_and_no_sentence_exceeds_its_bound(prepared: Prepared) -> None:
    for batch in loader_of(prepared):
        for width in (batch.source.shape[1], batch.target.shape[1] - 1):
            assert width <= LONGEST
            assert width * len(batch.indices) <= TOKENS


def test_nearly_all_sentences_fit_into_their_room(prepared: Prepared) -> None:
    subwords = regularization_of(prepared)
    rows = [(side, row) for side in (0, 1) for row in range(len(prepared.train))]
    fits = [len(subwords._draw(side, row, 1)) <= subwords.rooms[side][row] for side, row in rows]
    free = [subwords.rooms[side][row] < LONGEST - 1 for side, row in rows]
    kept = [fit for fit, unbounded in zip(fits, free, strict=True) if unbounded]
    assert sum(kept) / len(kept) > 0.8


def test_a_sentence_without_room_keeps_its_plain_pieces(prepared: Prepared) -> None:
    subwords = regularization_of(prepared, p=0.9)
    long = int(np.argmax(prepared.train.target_lengths))
    drawn = subwords.draw(1, long, epoch=0)
    assert list(drawn) == prepared.train.target(long).tolist()


@pytest.mark.parametrize(("world", "steps"), [(2, 1), (1, 3), (3, 2)])
def test_ranks_and_accumulation_steps_share_the_batches_of_one_process(
    prepared: Prepared, world: int, steps: int
) -> None:
    ranks = [loader_of(prepared, rank, world, steps) for rank in range(world)]
    parts = [list(loader) for loader in ranks]
    for index, batch in enumerate(loader_of(prepared)):
        pieces = [p for part in parts for p in part[index * steps : (index + 1) * steps]]
        assert {piece.total for piece in pieces} == {batch.total}
        assert batch.total == sum(int((piece.target[:, 1:] != PAD).sum()) for piece in pieces)
        rows = {row: ids for p in pieces for row, ids in zip(p.indices, p.target, strict=False)}
        for row, ids in zip(batch.indices, batch.target, strict=True):
            assert torch.equal(ids[ids != PAD], rows[row][rows[row] != PAD])


def test_an_epoch_goes_on_in_the_middle_with_the_same_pieces(prepared: Prepared) -> None:
    loader = loader_of(prepared, steps=2)
    list(loader)
    second = iter(loader)
    for _ in range(5):  # in the middle of a global batch
        next(second)
    state = loader.state_dict()
    resumed = loader_of(prepared, steps=2)
    resumed.load_state_dict(state)
    for one, other in zip(second, resumed, strict=True):
        assert one.indices == other.indices and one.total == other.total
        assert torch.equal(one.source, other.source) and torch.equal(one.target, other.target)


def test_another_seed_segments_differently(prepared: Prepared) -> None:
    one, other = (regularization_of(prepared, seed=seed).rows(0) for seed in (1, 2))
    rows = range(len(prepared.train))
    assert any(list(one.target(row)) != list(other.target(row)) for row in rows)

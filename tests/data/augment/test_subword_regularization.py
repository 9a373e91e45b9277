"""Batches of pairs that are segmented differently in every epoch."""

from pathlib import Path

import numpy as np
import pytest
from helpers.tiny_runs import corpus as demo_corpus

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


def loader_of(prepared: Prepared) -> BatchLoader:
    variants = regularization_of(prepared)
    return BatchLoader(prepared.train, max_tokens=TOKENS, seed=1, variants=variants)


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


def test_another_seed_segments_differently(prepared: Prepared) -> None:
    one, other = (regularization_of(prepared, seed=seed).rows(0) for seed in (1, 2))
    rows = range(len(prepared.train))
    assert any(list(one.target(row)) != list(other.target(row)) for row in rows)

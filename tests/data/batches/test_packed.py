"""Packed batches hold the same tokens as padded ones, and every batch of a training fits."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_corpora import corpus_in_memory
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import make_batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.batches.packed import Capacity, Packed, pack_batch

LONGEST = 12  # tokens of a sentence


def unpacked(ids: Tensor, starts: Tensor, count: int) -> list[list[int]]:
    """The tokens of the first sentences."""
    borders = starts[: count + 1].tolist()
    return [ids[a:b].tolist() for a, b in pairwise(borders)]


def check(packed: Packed, capacity: Capacity, rows: int) -> None:
    """The promises about borders and padding."""
    assert packed.tokens.shape == (5, capacity.tokens)
    assert packed.starts.shape == (2, capacity.sentences + 1)
    lengths = packed.starts.diff()
    assert (lengths >= 0).all() and (lengths <= capacity.longest).all()
    assert (packed.starts[:, 0] == 0).all() and (packed.starts[:, -1] == capacity.tokens).all()
    assert (lengths[:, rows : rows + capacity.tail] > 0).all()  # no query without keys
    for side in range(2):
        assert not packed.tokens[2 * side : 2 * side + 2, packed.starts[side, rows] :].any()


def test_sentences_follow_one_another_without_padding() -> None:
    corpus = corpus_in_memory([2, 9, 1], [1, 9, 3])
    batch = make_batch(corpus, np.array([2, 0]), total=6)
    capacity = Capacity.of(24, LONGEST, 1)
    packed = pack_batch(batch.source, batch.target, batch.places, capacity)
    check(packed, capacity, 2)
    assert unpacked(packed.tokens[0], packed.starts[0], 2) == [[6, EOS], [4, 4, EOS]]
    assert unpacked(packed.tokens[1], packed.starts[0], 2) == [[0, 1], [0, 1, 2]]
    assert unpacked(packed.tokens[2], packed.starts[1], 2) == [[BOS, 6, 6, 6], [BOS, 4]]
    assert unpacked(packed.tokens[3], packed.starts[1], 2) == [[0, 1, 2, 3], [0, 1]]
    assert unpacked(packed.tokens[4], packed.starts[1], 2) == [[6, 6, 6, EOS], [4, EOS]]
    assert packed.tokens[4][6:].eq(PAD).all()


def test_a_batch_without_sentences_has_no_labels() -> None:
    batch = make_batch(corpus_in_memory([2], [2]), [], total=3)
    capacity = Capacity.of(24, LONGEST, 1)
    packed = pack_batch(batch.source, batch.target, batch.places, capacity)
    check(packed, capacity, 1)
    assert packed.tokens[4].eq(PAD).all() and packed.tokens[0, 0] == EOS


def test_a_batch_that_does_not_fit_is_refused() -> None:
    batch = make_batch(corpus_in_memory([2, 9, 1], [1, 9, 3]), [0, 1, 2], total=16)
    for capacity in (Capacity(16, 9, LONGEST, 2), Capacity(64, 4, LONGEST, 2)):
        with pytest.raises(ValueError, match="do not fit"):
            pack_batch(batch.source, batch.target, batch.places, capacity)


@pytest.mark.parametrize(("world", "steps"), [(1, 1), (1, 3), (4, 1), (2, 5)])
@pytest.mark.parametrize("max_tokens", [LONGEST, 30, 200])
def test_every_batch_of_every_epoch_fits(max_tokens: int, world: int, steps: int) -> None:
    generator = np.random.default_rng(max_tokens)
    lengths: Any = generator.integers(1, LONGEST, size=(2, 200))
    lengths[:, :60] = 1  # many rows in a batch
    capacity = Capacity.of(max_tokens, LONGEST, world * steps)
    for rank in range(world):
        loader = BatchLoader(
            corpus_in_memory(*lengths.tolist()),
            max_tokens=max_tokens,
            seed=1,
            rank=rank,
            world=world,
            steps=steps,
            capacity=capacity,
        )
        for _ in range(3):
            for batch in loader:
                assert batch.packed is not None
                check(batch.packed, capacity, len(batch.source))
                labels = batch.packed.tokens[4].long()
                assert torch.equal(labels[labels != PAD], batch.labels)

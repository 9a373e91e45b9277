import numpy as np
import torch
from helpers.small_corpora import corpus_in_memory

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import make_batch


def test_sentences_are_padded_after_their_end() -> None:
    corpus = corpus_in_memory([2, 9, 1], [1, 9, 3])
    batch = make_batch(corpus, np.array([2, 0]), total=6)
    assert batch.source.tolist() == [[6, EOS, PAD], [4, 4, EOS]]
    assert batch.target.tolist() == [[BOS, 6, 6, 6, EOS], [BOS, 4, EOS, PAD, PAD]]
    assert batch.source.dtype == batch.target.dtype == torch.int32
    assert batch.places.tolist() == [0, 1, 2, 3, 4, 5] and batch.labels.tolist() == [
        6,
        6,
        6,
        EOS,
        4,
        EOS,
    ]
    assert (batch.total, batch.indices.tolist()) == (6, [2, 0])
    batch.source.fill_(99)  # it owns its memory
    assert corpus.source(0).tolist() == [4, 4]


def test_the_tokens_of_a_batch_add_up_to_its_total() -> None:
    corpus = corpus_in_memory([2, 9, 1], [1, 9, 3])
    batch = make_batch(corpus, [0, 1, 2], total=1 + 9 + 3 + 3)
    assert int((batch.target[:, 1:] != PAD).sum()) == batch.tokens == batch.total
    assert make_batch(corpus, [2, 0], total=16).tokens == 3 + 1 + 2


def test_a_rank_without_sentences_gets_a_dummy_row() -> None:
    batch = make_batch(corpus_in_memory([2], [2]), np.array([], dtype=np.int64), total=3)
    assert batch.source.tolist() == [[EOS]]
    assert batch.target.tolist() == [[BOS, PAD]]
    assert (batch.tokens, batch.total, batch.indices.tolist()) == (0, 3, [])

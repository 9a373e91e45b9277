"""Runs with R-Drop and SimCut, whose losses compare two passes; and the inputs that SimCut cuts."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.small_corpora import corpus_in_memory
from helpers.tiny_runs import metrics, train_tiny

from seq2seq.base.symbols import EOS
from seq2seq.data.batches.batch import draw_cuts, make_batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.corpus.corpus import Corpus

every_name = pytest.mark.parametrize("name", ["r_drop", "simcut"])


@pytest.fixture
def corpus_of_lengths() -> Corpus:
    lengths = np.arange(200) % 40 + 3
    return corpus_in_memory(lengths, lengths[::-1])


def test_cuts_have_their_probability_and_spare_begin_end_and_padding(
    corpus_of_lengths: Corpus,
) -> None:
    batch = make_batch(corpus_of_lengths, range(200), total=1)
    cuts = draw_cuts(batch, 0.2, seed=7, epoch=3)
    for ids, cut in zip((batch.source, batch.target[:, :-1]), cuts, strict=True):
        assert ids.shape == cut.shape
        assert not cut[ids <= EOS].any()
        assert cut[ids > EOS].float().mean().item() == pytest.approx(0.2, abs=0.02)
    source, target = (cut[:, :20] for cut in cuts)
    assert not torch.equal(source, target)


def test_cuts_are_a_pure_function_of_seed_epoch_and_row(corpus_of_lengths: Corpus) -> None:
    rows = [17, 4, 30]
    batch = make_batch(corpus_of_lengths, rows, total=1)
    together = draw_cuts(batch, 0.5, seed=7, epoch=3)
    for i, row in enumerate(rows):
        single = make_batch(corpus_of_lengths, [row], total=1)
        for one, all_rows in zip(draw_cuts(single, 0.5, seed=7, epoch=3), together, strict=True):
            assert torch.equal(one[0], all_rows[i, : one.shape[1]])
            assert not all_rows[i, one.shape[1] :].any()
    for other in ((8, 3), (7, 4)):
        changed = draw_cuts(batch, 0.5, *other)
        assert not torch.equal(torch.cat(changed, 1), torch.cat(together, 1))


def test_ranks_and_accumulation_steps_cut_the_same_inputs(corpus_of_lengths: Corpus) -> None:
    def cuts(rank: int, world: int, steps: int) -> dict[int, list[bool]]:
        loader = BatchLoader(
            corpus_of_lengths, max_tokens=512, seed=3, rank=rank, world=world, steps=steps, cut=0.4
        )
        drawn = {}
        for batch in loader:
            assert batch.cuts is not None
            ends = (batch.source == EOS).int().argmax(1).tolist()
            for row, end, cut in zip(batch.indices, ends, batch.cuts[0], strict=False):
                drawn[row] = cut[:end].tolist()
        return drawn

    assert cuts(0, 2, 2) | cuts(1, 2, 2) == cuts(0, 1, 1)


@every_name
def test_the_curve_shows_the_likelihood_alone(name: str, base: Path) -> None:
    run = train_tiny(base, f"loss.{name}=5", "model.dropout=0.2", "trainer.max_steps=1")
    # Untrained, every one of 400 pieces is about as likely as another.
    assert metrics(run, "train/loss")[0] == pytest.approx(math.log(400), rel=0.15)


@every_name
def test_a_dry_run_tries_the_loss(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_tiny(tmp_path, f"loss.{name}=3", "dry_run=true")
    assert "memory" in capsys.readouterr().out

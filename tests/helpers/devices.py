"""Runs on several devices, compared with one."""

from pathlib import Path

import pytest
import torch
import torch.distributed

from helpers.tiny_runs import metrics, weights

# Adam divides a gradient by its size. Where the true gradient is zero (biases of keys), rounding
# would become a step of full size, so a larger eps is needed to compare. Batches are so small that
# some ranks get no sentence of them.
OPTIONS = (
    *("model.dropout=0", "optimizer.eps=1e-3", "data.max_tokens=192"),
    *("trainer.max_steps=10", "trainer.val_check_interval=5"),
    "trainer.log_every_n_steps=2",
)


TWO = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu")


def assert_learnt_the_same(folder: Path, other: Path) -> None:
    expected = weights(other)
    for name, value in weights(folder).items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=0)
    for name, lines in (("train/loss", 5), ("valid/loss", 2), ("valid/bleu", 2)):
        assert len(metrics(folder, name)) == lines
        assert metrics(folder, name) == pytest.approx(metrics(other, name), abs=1e-5)

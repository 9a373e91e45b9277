"""Runs that should end alike: resumed runs to the bit, runs on several devices up to rounding."""

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.tiny_runs import metrics, train_tiny, weights

# Twenty updates with dropout; between seven and twenty are an epoch.
TWENTY = (
    *("data.max_tokens=1024", "model.dropout=0.2", "attn.dropout=0.1", "model.word_dropout=0.1"),
    "schedule.steps=20",
)
# Ten updates without dropout. Adam divides a gradient by its size. Where the true gradient is zero
# (biases of keys), rounding would become a step of full size, so a larger eps is needed to compare.
# Batches are so small that some ranks get no sentence of them.
ON_ANY_DEVICES = (
    *("model.dropout=0", "optimizer.eps=1e-3", "data.max_tokens=192"),
    *("trainer.max_steps=10", "trainer.val_check_interval=5"),
    "trainer.log_every_n_steps=2",
)
TWO_PROCESSES = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu")


def state_of(folder: Path) -> dict[str, Any]:
    """The weights, optimizer states and schedules in last.ckpt."""
    content = torch.load(folder / "last.ckpt", weights_only=True)
    return {key: content[key] for key in ("state_dict", "optimizer_states", "lr_schedulers")}


def assert_identical(actual: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert torch.equal(actual, expected)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_identical(actual[key], expected[key])
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_identical(one, other)
    else:
        assert actual == expected


def assert_resumed_exactly(base: Path, *options: str, stops: tuple[int, ...], end: int) -> Path:
    """Train to the end in one go, and with an interruption at each of these updates.

    Returns: the folder of the run in one go.
    """
    # It validates at other steps, since validation must not change the model.
    interval = f"trainer.val_check_interval={end // 2 - 1}"
    whole = train_tiny(base, *options, f"trainer.max_steps={end}", interval)
    folder = None
    for stop in (*stops, end):
        resume = () if folder is None else (f"resume={folder / 'last.ckpt'}",)
        folder = train_tiny(base, *options, f"trainer.max_steps={stop}", *resume)
    assert folder is not None
    assert_identical(state_of(folder), state_of(whole))
    return whole


def assert_learnt_the_same(folder: Path, other: Path) -> None:
    expected = weights(other)
    for name, value in weights(folder).items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=0)
    for name, lines in (("train/loss", 5), ("valid/loss", 2), ("valid/bleu", 2)):
        assert len(metrics(folder, name)) == lines
        assert metrics(folder, name) == pytest.approx(metrics(other, name), abs=1e-5)

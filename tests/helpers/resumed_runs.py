"""What is equal in two runs."""

from pathlib import Path
from typing import Any

import torch

# Between seven and twenty updates an epoch.
DROPOUT = ("model.dropout=0.2", "attn.dropout=0.1", "model.word_dropout=0.1")


LONG = ("data.max_tokens=1024", *DROPOUT, "schedule.steps=20")


def state_of(folder: Path) -> dict[str, Any]:
    """Everything in last.ckpt but the paths of the run's folder."""
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

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from seq2seq.training.mean_loss import MeanLoss


class Running:
    """A training of two micro-batches an update, with a line every two updates."""

    def __init__(self) -> None:
        self.trainer: Any = SimpleNamespace(accumulate_grad_batches=2, global_step=0, global_rank=0)
        self.logged: list[tuple[str, float]] = []
        self.module: Any = SimpleNamespace(
            device="cpu", log=lambda name, value, **_: self.logged.append((name, value))
        )
        self.batches = 0

    def add(self, callback: MeanLoss, *sums: tuple[float, int]) -> None:
        self.batches += 1
        self.trainer.global_step = self.batches // 2
        outputs = {"sums": torch.tensor(sums, dtype=torch.float64)}
        batch: Any = None
        callback.on_train_batch_end(self.trainer, self.module, outputs, batch, self.batches - 1)


def test_a_line_is_the_mean_over_the_tokens_since_the_last() -> None:
    running, callback = Running(), MeanLoss(every=2)
    callback.on_train_start(running.trainer, running.module)
    for total, tokens in ((30, 10), (2, 2), (5, 1), (7, 1)):
        running.add(callback, (total, tokens), (0, 0))
    assert running.logged == [("train/loss", pytest.approx(44 / 14))]
    for asked in (3, 0, 0, 1):
        running.add(callback, (6, 3), (2 * asked, asked))
    assert running.logged[1:] == [("train/loss", 2), ("train/align_loss", 2)]


@pytest.mark.parametrize(("rank", "expected"), [(0, 4.0), (1, 1.0)])
def test_what_a_checkpoint_holds_is_counted_by_one_device(rank: int, expected: float) -> None:
    running, before, after = Running(), MeanLoss(every=2), MeanLoss(every=2)
    for _ in range(3):
        running.add(before, (5, 1), (0, 0))
    after.load_state_dict(before.state_dict())
    running.trainer.global_rank = rank
    after.on_train_start(running.trainer, running.module)
    running.add(after, (1, 1), (0, 0))
    assert running.logged == [("train/loss", expected)]

"""Random states, and the mean losses of the curves."""

from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
import torch

from seq2seq.training.callbacks import MeanLoss, MovingAverage, RandomState

MODULE: Any = None


def trainer(rank: int = 0, world: int = 1) -> Any:
    return SimpleNamespace(global_rank=rank, world_size=world)


def draws(callback: RandomState, rank: int = 0, world: int = 1) -> list[float]:
    """The first random numbers of a training."""
    callback.on_train_start(trainer(rank, world), MODULE)
    return torch.rand(5).tolist()


def test_each_process_and_each_seed_draws_differently() -> None:
    streams = [draws(RandomState(seed=seed), rank, 3) for rank in range(3) for seed in (1, 2)]
    assert len(set(map(tuple, streams))) == 6
    assert draws(RandomState(seed=2), 2, 3) == streams[-1]


def test_random_states_continue_where_the_checkpoint_was_saved() -> None:
    before = RandomState(seed=1)
    draws(before)
    state = before.state_dict()
    expected = torch.rand(5).tolist()
    after = RandomState(seed=1)
    after.load_state_dict(state)
    assert draws(after) == expected


def test_on_more_or_fewer_devices_random_states_begin_again() -> None:
    callback = RandomState(seed=1)
    callback.load_state_dict(RandomState(seed=1).state_dict())
    assert draws(callback, 1, 2) == draws(RandomState(seed=1), 1, 2)


class Running:
    """A training of two micro-batches an update, with a line every two updates."""

    def __init__(self) -> None:
        self.trainer: Any = SimpleNamespace(
            accumulate_grad_batches=2,
            log_every_n_steps=2,
            global_step=0,
            global_rank=0,
            fit_loop=SimpleNamespace(batch_idx=-1),
        )
        self.logged: list[tuple[str, float]] = []
        self.module: Any = SimpleNamespace(
            device="cpu", log=lambda name, value, **_: self.logged.append((name, value))
        )

    def add(self, callback: MeanLoss, *sums: tuple[float, int]) -> None:
        self.trainer.fit_loop.batch_idx += 1
        self.trainer.global_step = (self.trainer.fit_loop.batch_idx + 1) // 2
        totals, (tokens, linked) = zip(*sums, strict=True)
        outputs = {"sums": torch.tensor(totals, dtype=torch.float64)}
        batch: Any = SimpleNamespace(tokens=tokens, links=SimpleNamespace(linked=linked))
        index = self.trainer.fit_loop.batch_idx
        callback.on_train_batch_end(self.trainer, self.module, outputs, batch, index)


def test_a_line_is_the_mean_over_the_tokens_since_the_last() -> None:
    running, callback = Running(), MeanLoss()
    callback.on_train_start(running.trainer, running.module)
    for total, tokens in ((30, 10), (2, 2), (5, 1), (7, 1)):
        running.add(callback, (total, tokens), (0, 0))
    assert running.logged == [("train/loss", pytest.approx(44 / 14))]
    for asked in (3, 0, 0, 1):
        running.add(callback, (6, 3), (2 * asked, asked))
    assert running.logged[1:] == [("train/loss", 2), ("train/align_loss", 2)]


@pytest.mark.parametrize(("rank", "expected"), [(0, 4.0), (1, 1.0)])
def test_what_a_checkpoint_holds_is_counted_by_one_device(rank: int, expected: float) -> None:
    running, before, after = Running(), MeanLoss(), MeanLoss()
    for _ in range(3):
        running.add(before, (5, 1), (0, 0))
    after.load_state_dict(before.state_dict())
    running.trainer.global_rank = rank
    after.on_train_start(running.trainer, running.module)
    running.add(after, (1, 1), (0, 0))
    assert running.logged == [("train/loss", expected)]


def test_the_average_follows_its_model_to_the_device() -> None:
    module: Any = L.LightningModule()
    module.layer = torch.nn.Linear(2, 2)
    trainer: Any = SimpleNamespace()
    callback = MovingAverage(0.9)
    callback.setup(trainer, module, "fit")
    callback.on_train_start(trainer, module.to("meta"))
    average: Any = callback._average_model
    assert {weight.device.type for weight in average.module.parameters()} == {"meta"}
    assert average.n_averaged.device.type == "cpu"

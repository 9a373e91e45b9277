"""An update of a training reads nothing back from the device."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from helpers.dispatch import NoWait, refuses
from helpers.tiny_runs import train_tiny

from seq2seq.training import run

FIRST, LAST = 11, 19  # the updates that are watched, between two lines of metrics.csv


class Watch(L.Callback):
    """Lets no update wait, from the first step of one to the first of another."""

    def __init__(self) -> None:
        self.watching, self.updates = ExitStack(), 0

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == FIRST and not self.updates:
            self.watching.enter_context(NoWait())
        self.updates += trainer.global_step in range(FIRST, LAST)
        if trainer.global_step == LAST:
            self.watching.close()


def test_no_wait_refuses_what_waits() -> None:
    x = torch.arange(4.0)
    assert refuses(lambda: x.sum().item())
    assert refuses(lambda: x[x > 1])
    assert refuses(lambda: bool(x[0] > 1))
    assert refuses(lambda: x.nonzero())
    assert refuses(lambda: torch.tensor(1.0))
    assert not refuses(lambda: x[torch.arange(2)] + x.index_select(0, torch.arange(2)) * 2.0)


@pytest.mark.parametrize(
    ("overrides", "terminal"),
    [
        (("trainer.accumulate_grad_batches=2", "checkpoint.ema=0.99"), True),
        (("loss.r_drop=1", "model.word_dropout=0.1", "attn=gqa"), False),
        (("loss.simcut=1", "position=rope", "model.tie=target"), False),
        (("trainer.packed=true", "trainer.accumulate_grad_batches=2", "checkpoint.ema=0.99"), True),
    ],
    ids=str,
)
def test_updates_do_not_wait(
    overrides: tuple[str, ...],
    terminal: bool,
    tmp_path_factory: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)  # with a progress bar
    watch, build = Watch(), run.build_callbacks
    monkeypatch.setattr(run, "build_callbacks", lambda *given: [*build(*given), watch])
    base: Path = tmp_path_factory.getbasetemp()
    train_tiny(
        base,
        *("trainer.max_steps=20", "trainer.log_every_n_steps=10", "trainer.val_check_interval=20"),
        *overrides,
    )
    assert watch.updates >= LAST - FIRST

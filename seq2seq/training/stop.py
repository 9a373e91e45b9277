"""Stopping when asked to, without losing an update."""

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import lightning as L
import torch

from seq2seq.training.callbacks import LastCheckpoint, ends_update

Handler = Callable[[int, FrameType | None], Any] | int | None


class StopOnSignal(L.Callback):
    """On SIGTERM, SIGUSR1 or Ctrl-C: finish the update in hand, write last.ckpt, exit with 128 +
    signal.

    A scheduler that takes the machine away sends one of the first two, and the run goes on from
    that file as if nothing had happened. A second signal stops at once. All processes of a run stop
    after the same update, whichever of them were told.

    Args:
        last: writes the file.
    """

    SIGNALS = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGUSR1"):  # not on Windows
        SIGNALS.append(signal.SIGUSR1)

    def __init__(self, last: LastCheckpoint):
        self.last = last
        self.received: int | None = None
        self.stopping = False
        self.before: dict[int, Handler] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # After Lightning's own handlers, one of which would stop between two micro-batches.
        self.before = {number: signal.signal(number, self._note) for number in self.SIGNALS}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self.before = {}

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        if ends_update(trainer, index):
            told = self.received is not None
            self.stopping = trainer.strategy.reduce_boolean_decision(told, all=False)
            self.last.wanted |= self.stopping

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, index: int
    ) -> None:
        """By now the last step is complete: its metrics are written, and its validation made."""
        if not self.stopping:
            return
        # Of those told of it late, or not at all, the exit code is to be the same.
        told = torch.tensor(self.received or 0, device=trainer.strategy.root_device)
        number = signal.Signals(int(trainer.strategy.reduce(told, reduce_op="max")))
        if trainer.is_global_zero:
            print(
                f"stopped by {number.name} after step {trainer.global_step:,}; "
                f"resume={self.last.file} goes on exactly there",
                file=sys.stderr,
                flush=True,
            )
        raise SystemExit(128 + number)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._restore()

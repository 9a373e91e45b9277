"""Ending a run early: on a signal without losing an update, without progress, or on divergence."""

import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import EarlyStopping

from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.checkpoint.folder import BEST, LAST
from seq2seq.training.callbacks import ends_update, group_of_hosts, is_line_due
from seq2seq.training.checkpointing import LastCheckpoint, describe_resume

# Signals within this many seconds count as one: on Ctrl-C, a terminal and torchrun each send one.
TOGETHER = 1.0
# What torch says if a process does not answer in time, or is no longer there.
LOST = re.compile("time(d )?out|connection (closed|reset)|broken pipe", re.IGNORECASE)
Handler = Callable[[int, FrameType | None], Any] | int | None


class StopOnSignal(L.Callback):
    """On SIGTERM, SIGUSR1 or Ctrl-C, finishes the current update, writes last.ckpt, and exits with
    code 128 + signal.

    A scheduler that reclaims the machine sends one of the first two signals; the run can then
    resume from last.ckpt as if nothing had happened. A second signal, more than `TOGETHER` seconds
    after the first, stops at once. All processes of a run stop after the same update, whichever of
    them got the signal.

    Args:
        last: callback that writes last.ckpt.
        minutes: longest wait of a process for the others.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

    def __init__(self, last: LastCheckpoint, minutes: float):
        self.last, self.minutes = last, minutes
        self.received: int | None = None
        self.told_at = 0.0
        self.stopping = 0  # the signal that all processes stop for; 0 = none
        self.group: Any = None  # all processes; None if there is one
        self.before: dict[int, Handler] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Replaces Lightning's own handlers, one of which would stop between two micro-batches.
        self.before = {signum: signal.signal(signum, self._note) for signum in self.SIGNALS}
        self.group = group_of_hosts(trainer, self.minutes)
        if self.group is not None:
            # Lightning asks for its own signals at every batch, and waits for the GPU:
            # https://github.com/Lightning-AI/pytorch-lightning/issues/21487
            trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self.told_at = signum, time.monotonic()
        elif time.monotonic() - self.told_at > TOGETHER:
            raise SystemExit(128 + signum)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if not ends_update(trainer):
            return
        self.stopping = self.received or 0
        if self.group is not None:  # the highest signal that a process has received
            highest = torch.tensor(self.stopping)
            dist.all_reduce(highest, dist.ReduceOp.MAX, self.group)
            self.stopping = int(highest)
        self.last.wanted |= self.stopping > 0

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        """Exit if it is time to stop. By now the previous step is complete: its metrics are
        written, and its validation is done.
        """
        if not self.stopping:
            return
        signum = signal.Signals(self.stopping)
        if trainer.is_global_zero:
            print(
                f"stopped by {signum.name} after step {trainer.global_step:,}; "
                f"resume={self.last.file} continues exactly there",
                file=sys.stderr,
                flush=True,
            )
        raise SystemExit(128 + signum)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for signum, handler in self.before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        self.before = {}


def explain_lost(error: RuntimeError, trainer: L.Trainer, minutes: float) -> None:
    """Raises: ConfigError if an error means that the processes of a run lost each other."""
    if trainer.world_size > 1 and LOST.search(str(error)):
        raise ConfigError(
            "processes of this run lost each other: one ended, or waited for a slow one for longer "
            f"than trainer.timeout={minutes:g} minutes; raise that if so{describe_resume(trainer)}"
        ) from error


class Patience(EarlyStopping):
    """Ends a run after a number of validations without a better score. If such a run is resumed, it
    ends at once.
    """

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        trainer.should_stop |= self.wait_count >= self.patience


class DivergedError(Seq2SeqError):
    """Raised if weights or the validation loss are NaN or infinite."""


class StopOnDivergence(L.Callback):
    """Ends a run whose weights or validation loss are not finite, before it saves them.

    It checks weights, not batch losses: with float16 a loss may overflow, which only skips the
    update. One bad gradient ruins the weights for good, so occasional checks are enough, and each
    has to wait for the GPU. They take place when metrics are logged, before a validation, and
    before anything is saved. All processes have the same weights and end together.

    Args:
        folder: folder of the run, whose checkpoints are not changed.
        lr: learning rate of the run, for the message.
    """

    def __init__(self, folder: Path, lr: float):
        self.folder, self.lr = folder, lr

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        if is_line_due(trainer):
            self.on_validation_start(trainer, pl_module)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.callback_metrics["valid/loss"].isfinite():
            self._end(trainer, "the validation loss is")

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        weights = [parameter.detach() for parameter in pl_module.parameters()]
        if not torch.nn.utils.get_total_norm(weights, float("inf")).isfinite():
            self._end(trainer, "weights are")

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, _: Any) -> None:
        self.on_validation_start(trainer, pl_module)

    def _end(self, trainer: L.Trainer, what: str) -> None:
        if not trainer.is_global_zero:
            raise SystemExit(2)  # the first process says why
        files = (self.folder / name for name in (BEST, LAST))
        saved = [str(file) for file in files if file.is_file()]
        start = f", for example from init={saved[0]}," if saved else ""
        raise DivergedError(
            f"training diverged: at step {trainer.global_step:,} {what} NaN or infinite. "
            f"Start again{start} with a lower optimizer.lr than {self.lr}, a longer "
            "schedule.warmup, or trainer.gradient_clip_val=1.0 or less. "
            + (f"Saved before: {', '.join(saved)}" if saved else "Nothing was saved before")
        )

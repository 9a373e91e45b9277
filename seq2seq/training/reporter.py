"""The output of a training run: a progress bar or lines, validation scores, translations."""

import math
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

import lightning as L
from lightning.pytorch.callbacks import RichProgressBar, Timer

from seq2seq.base.errors import escape
from seq2seq.data.batches.batch import Batch
from seq2seq.training.callbacks import is_line_due
from seq2seq.training.module import SYMBOL_METRICS, TrainingModule

SHOWN = 12  # directions whose scores are printed at a validation


class ProgressBar(RichProgressBar):
    """Progress bar with the loss since the last line of metrics.csv, BLEU and tokens per second."""

    SHOWN = {"train/loss": "loss", "valid/bleu": "BLEU", "train/tokens_per_second": "tokens/s"}

    def __init__(self) -> None:
        super().__init__()
        self.shown: dict[str, Any] = {}

    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, Any]:
        # Between two lines nothing changes, and reading the values would wait for the device.
        if not trainer.training or trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            values, names = trainer.callback_metrics, self.SHOWN.items()
            self.shown = {word: f"{values[key]:,.2f}" for key, word in names if key in values}
        return self.shown

    def _get_train_description(self, current_epoch: int) -> str:
        # Lightning's text includes max_epochs, which is -1 if max_steps ends training.
        return f"epoch {current_epoch + 1}"


class Reporter(L.Callback):
    """Logs target tokens per second; prints progress lines and, after each validation, scores and a
    few translations, which are also written to samples.txt in the folder of the run.

    Args:
        silence: seconds without output after which a progress line is printed; infinite if there
            is a progress bar.
    """

    def __init__(self, silence: float = math.inf):
        self.silence = silence
        self.tokens = self.seconds = 0.0
        self.started_at = self.last_batch_at = self.last_line_at = time.perf_counter()
        self.first_step = 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.started_at = self.last_batch_at = self.last_line_at = time.perf_counter()
        self.first_step = trainer.global_step
        if self.first_step and trainer.is_global_zero:
            of = f" of {trainer.max_steps:,}" if trainer.max_steps > 0 else ""
            self.print_line(f"resumed after step {self.first_step:,}{of}")

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Batch, *_: Any
    ) -> None:
        self.tokens += batch.total / trainer.accumulate_grad_batches
        now = time.perf_counter()
        self.seconds += now - self.last_batch_at
        self.last_batch_at = now
        if self.seconds and is_line_due(trainer):
            pl_module.log("train/tokens_per_second", self.tokens / self.seconds)
        if self.is_silent(trainer):
            step, left = self.describe_step(trainer), self.describe_time_left(trainer)
            self.print_line(f"{step}{self.describe_speed()}{left}")

    def on_validation_epoch_end(self, trainer: Any, pl_module: L.LightningModule) -> None:
        """Log the seconds of training so far, including earlier parts of a resumed run."""
        for timer in trainer.callbacks:
            if isinstance(timer, Timer):
                pl_module.log("seconds", timer.time_elapsed(), sync_dist=True)

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, index: int, *_: Any
    ) -> None:
        if self.is_silent(trainer):
            step, (count,) = self.describe_step(trainer), trainer.num_val_batches
            self.print_line(f"{step}  validation batch {index + 1:,} of {count:,}")

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            assert isinstance(pl_module, TrainingModule)
            samples = map(escape, describe_samples(pl_module))
            lines = [self.describe_validation(trainer), *samples]
            print("\n".join(lines), flush=True)
            with (pl_module.plan.folder / "samples.txt").open("a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n\n")
        self.tokens = self.seconds = 0.0
        self.last_batch_at = self.last_line_at = time.perf_counter()

    def is_silent(self, trainer: L.Trainer) -> bool:
        """True if nothing has been printed for so long that a progress line is due."""
        return time.perf_counter() - self.last_line_at >= self.silence and trainer.is_global_zero

    def print_line(self, line: str) -> None:
        print(line, flush=True)
        self.last_line_at = time.perf_counter()

    def describe_step(self, trainer: L.Trainer) -> str:
        """The progress so far, such as `step 500  epoch 3  train loss 2.31`."""
        values, loader = trainer.callback_metrics, cast(Any, trainer.train_dataloader)
        train = f"  train loss {values['train/loss']:.3f}" if "train/loss" in values else ""
        return f"step {trainer.global_step:,}  epoch {loader.state_dict()['epoch'] + 1}{train}"

    def describe_speed(self) -> str:
        return f"  {self.tokens / self.seconds:,.0f} tokens/s" if self.seconds else ""

    def describe_time_left(self, trainer: L.Trainer) -> str:
        """The time for the remaining updates at the speed so far: `  about 0:12:30 left`."""
        done, last = trainer.global_step - self.first_step, trainer.estimated_stepping_batches
        if not done or math.isinf(last):
            return ""
        seconds = (time.perf_counter() - self.started_at) / done * (last - trainer.global_step)
        return f"  about {timedelta(seconds=round(seconds))} left"

    def describe_validation(self, trainer: L.Trainer) -> str:
        """The line after a validation, such as
        `step 500  epoch 3  train loss 2.31  valid loss 1.98  BLEU 31.20  9,120 tokens/s`.
        """
        values = trainer.callback_metrics
        guided = "valid/align_loss" in values
        align = f"  align loss {values['valid/align_loss']:.3f}" if guided else ""
        share = values.get("valid/truncated", 0)
        cut_off = f"  {share:.0%} cut off at the length limit" if share else ""
        return (
            f"{self.describe_step(trainer)}  valid loss {values['valid/loss']:.3f}{align}"
            f"  BLEU {values['valid/bleu']:.2f}{describe_monitor(values)}{self.describe_speed()}"
            f"{cut_off}{describe_directions(values)}"
        )


def describe_samples(module: TrainingModule) -> Iterator[str]:
    """The source, translation and reference of each sample, one per line."""
    for row in list(module.sentences)[: module.plan.validation.samples]:
        if row in module.translations:  # otherwise another process translated it
            yield f"  source       {module.sentences[row].source}"
            yield f"  translation  {module.translations[row]}"
            yield f"  reference    {module.sentences[row].reference}"


def describe_directions(values: Mapping[str, Any]) -> str:
    """A second line with the BLEU of each direction, or of the worst, if there are several."""
    start = "valid/bleu/"
    found = sorted((v.item(), k.removeprefix(start)) for k, v in values.items() if start in k)
    shown = ", ".join(f"{direction} {value:.1f}" for value, direction in found[:SHOWN])
    return f"\n  BLEU by direction: {shown}" if found else ""


def describe_monitor(values: Mapping[str, Any]) -> str:
    """The metric that chooses best.ckpt, if no other line shows it: `  command 0.8312 (3.2 s)`."""
    names = [name for name in SYMBOL_METRICS if f"valid/{name}" in values]
    shown = [f"  {name} {values[f'valid/{name}']:.2f}" for name in names]
    if "valid/command" in values:
        seconds = values["valid/command_seconds"]
        shown.append(f"  command {values['valid/command']:.4g} ({seconds:.1f} s)")
    return "".join(shown)

"""The end of a training whose numbers are no numbers any more."""

from pathlib import Path
from typing import Any

import lightning as L
import torch

from seq2seq.errors import Seq2SeqError
from seq2seq.training.callbacks import ends_update
from seq2seq.training.options import OptimizerOptions


class DivergedError(Seq2SeqError):
    """Weights or the validation loss are NaN or infinite."""


class StopOnDivergence(L.Callback):
    """Ends a run whose weights, or whose validation loss, are not finite, before it saves them.

    Weights, not the loss of a batch: with float16 that may overflow, and the update is left out.
    Where it is made, one bad gradient spoils the weights for good, so it is enough to look now and
    then, which a GPU has to be waited for: when metrics are logged, before a validation, and before
    anything is saved. All processes have the same weights and end together.

    Args:
        folder: of the run, whose checkpoints stay as they are.
        optimizer: what the run goes by.
        every: updates between two lines of metrics.
    """

    def __init__(self, folder: Path, optimizer: OptimizerOptions, every: int):
        self.folder, self.optimizer, self.every = folder, optimizer, every

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        if ends_update(trainer, index) and trainer.global_step % self.every == 0:
            self._check_weights(trainer, pl_module)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._check_weights(trainer, pl_module)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.callback_metrics["valid/loss"].isfinite():
            self._end(trainer, "the validation loss is")

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, content: dict[str, Any]
    ) -> None:
        self._check_weights(trainer, pl_module)

    def _check_weights(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        weights = [parameter.detach() for parameter in module.parameters()]
        if not torch.nn.utils.get_total_norm(weights, float("inf")).isfinite():
            self._end(trainer, "weights are")

    def _end(self, trainer: L.Trainer, what: str) -> None:
        if not trainer.is_global_zero:
            raise SystemExit(2)  # the first process says why
        kept = [self.folder / name for name in ("best.ckpt", "last.ckpt")]
        found = [str(file) for file in kept if file.is_file()]
        begin = f", with init={found[0]} for example" if found else ""
        raise DivergedError(
            f"training diverged: at step {trainer.global_step:,} {what} no finite number any more. "
            f"Begin again{begin}, with less than optimizer.lr={self.optimizer.lr}, a longer "
            "schedule.warmup, or trainer.gradient_clip_val=1.0 or less. "
            + (f"From before it: {', '.join(found)}" if found else "Nothing was saved before it")
        )

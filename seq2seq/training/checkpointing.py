"""Callbacks that save the checkpoints of a run, and the atomic writing of their files."""

import shutil
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_only

from seq2seq.base.durable import replacing
from seq2seq.base.errors import CheckpointError
from seq2seq.checkpoint.folder import LAST, save_archive
from seq2seq.training.callbacks import ends_update


class BestCheckpoint(ModelCheckpoint):
    """Saves the best model, and copies it over when a run continues in another folder."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        before = Path(state_dict["best_model_path"])
        here = Path(self.dirpath or "", before.name)
        if state_dict["best_model_score"] is None or before == here or not before.is_file():
            return
        if getattr(rank_zero_only, "rank", 0) == 0:
            with before.open("rb") as best, replacing(here) as file:
                shutil.copyfileobj(best, file)
        self.best_model_path = self.kth_best_model_path = str(here)
        self.best_model_score = self.kth_value = state_dict["best_model_score"]
        self.best_k_models = {str(here): state_dict["best_model_score"]}


class LastCheckpoint(Checkpoint):
    """Writes last.ckpt every `every` updates, on request, and when training ends.

    The file is written when a step is complete, which includes its validation if one is due. If it
    were written earlier, a resumed run would skip that validation and might miss the best model.

    Args:
        folder: folder of the run.
        every: number of updates between two checkpoints.
    """

    def __init__(self, folder: Path, every: int):
        self.file, self.every = folder / LAST, every
        self.wanted = False  # write at the next complete step

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if not ends_update(trainer):
            return
        self.wanted |= trainer.global_step % self.every == 0
        interval = int(trainer.val_check_batch or 1) // trainer.accumulate_grad_batches
        if self.wanted and trainer.global_step % interval:
            self._save(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.wanted:
            self._save(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._save(trainer)

    def _save(self, trainer: L.Trainer) -> None:
        self.wanted = False
        trainer.save_checkpoint(self.file)


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes files atomically; Lightning's plugin writes to $TMPDIR and copies.

    An error is stored for `Trainer` to raise. Raising it here, in the first process only, would
    leave the other processes waiting forever.
    """

    error: CheckpointError | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        file = Path(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            save_archive(checkpoint, file)
        except CheckpointError as error:
            self.error = error


class Trainer(L.Trainer):
    """Lightning's trainer, in which all processes exit if the first cannot write a checkpoint."""

    def save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        super().save_checkpoint(*arguments, **options)
        files = self.strategy.checkpoint_io
        error = files.error if isinstance(files, AtomicCheckpoints) else None
        if not self.strategy.reduce_boolean_decision(error is not None, all=False):
            return
        if error is None:
            raise SystemExit(2)  # the first process says why
        raise CheckpointError(f"{error}{describe_resume(self)}") from error


def describe_resume(trainer: L.Trainer) -> str:
    """Text that ends an error message: how to continue the run; empty without a last.ckpt."""
    callbacks: list[L.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    last = [each.file for each in callbacks if isinstance(each, LastCheckpoint)]
    found = (f". Once that is fixed, resume={file} continues" for file in last if file.is_file())
    return next(found, "")

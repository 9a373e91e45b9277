"""Checkpoints as this house writes them, under Lightning's Trainer."""

from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.plugins import TorchCheckpointIO

from seq2seq.checkpoint import save
from seq2seq.errors import CheckpointError
from seq2seq.training.callbacks import LastCheckpoint


class WholeFiles(TorchCheckpointIO):
    """Writes files that are whole or as they were; Lightning's own writes to $TMPDIR and copies.

    An error is kept for `Trainer`: raised here, in the first process, it would leave the others
    waiting for one that is gone.
    """

    error: CheckpointError | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        file = Path(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            save(checkpoint, file)
        except CheckpointError as error:
            self.error = error


class Trainer(L.Trainer):
    """Lightning's, with `WholeFiles`: all processes end if the first could not write one."""

    def save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        super().save_checkpoint(*arguments, **options)
        files = self.strategy.checkpoint_io
        error = files.error if isinstance(files, WholeFiles) else None
        if not self.strategy.reduce_boolean_decision(error is not None, all=False):
            return
        if error is None:
            raise SystemExit(2)  # the first process says why
        last = [c.file for c in self.callbacks if isinstance(c, LastCheckpoint)]  # type: ignore[attr-defined]
        whole = [f". resume={file} goes on, once that is mended" for file in last if file.is_file()]
        raise CheckpointError(f"{error}{''.join(whole)}") from error

"""The training loss between two lines of metrics.csv."""

from typing import Any

import lightning as L
import torch

from seq2seq.data.batch import Batch
from seq2seq.training.callbacks import ends_update, gather

NAMES = ("train/loss", "train/align_loss")


class MeanLoss(L.Callback):
    """Logs the losses of training, each a mean over all its tokens since the last line.

    One batch says little: its sentences have like lengths, and the loss differs more between
    lengths than between weeks of training. Sums stay on the device until a line is due.

    Args:
        every: updates between two lines.
    """

    def __init__(self, every: int):
        self.every = every
        # (2, 2) of each loss, in the order of NAMES: its sum, and the tokens that it is over.
        self.sums = torch.zeros(2, 2, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._of_all_devices()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums = state["sums"]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # What was loaded is of all devices together: one of them goes on with it.
        self.sums = self.sums.to(pl_module.device) * (trainer.global_rank == 0)

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        # Resumed from the end of a training, Lightning counts one update too many: its lines would
        # stand at other steps, where no loss is logged.
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        index: int,
    ) -> None:
        self.sums += outputs["sums"]
        if not ends_update(trainer, index) or trainer.global_step % self.every:
            return
        for name, (total, tokens) in zip(NAMES, self._of_all_devices().tolist(), strict=True):
            if tokens:  # no link may have been asked for
                pl_module.log(name, total / tokens, prog_bar=name == NAMES[0])
        self.sums.zero_()

    def _of_all_devices(self) -> torch.Tensor:
        return torch.stack(gather(self.sums)).sum(0)

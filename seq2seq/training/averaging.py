"""A moving average of the weights, which is what is validated and saved."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor


class MovingAverage(WeightAveraging):
    """Exponential moving average: after update n, average = d average + (1 - d) weights with
    d = min(decay, (1 + n) / (10 + n)), so that the random weights of the start are soon forgotten.

    Checkpoints hold the average as the model, and beside it the weights that training goes on with.

    Args:
        decay: 0.999 looks back over about a thousand updates.

    Source: Polyak and Juditsky 1992, SIAM J. Control Optim. 30(4).
    """

    def __init__(self, decay: float):
        self.decay = decay
        # Buffers are constants here, some of them whole numbers, which have no average.
        super().__init__(use_buffers=False, multi_avg_fn=self._mix)

    def _mix(self, averages: Any, weights: Any, updates: Tensor | int) -> None:
        # A tensor where `updates` is one: to know its number would be to wait for the GPU.
        n = torch.as_tensor(updates)
        decay = ((1 + n) / (10 + n)).clamp(max=self.decay)
        for average, weight in zip(averages, weights, strict=True):
            average.lerp_(weight, (1 - decay).to(average.dtype))

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the weights. Lightning puts the average in their place here, before last.ckpt is
        written, and a resumed run would begin with the wrong ones.
        """


def replace_by_average(trainer: L.Trainer, module: L.LightningModule, content: Any) -> None:
    """Put the average into a checkpoint of weights alone: for such, Lightning asks no callback."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, MovingAverage):
            callback.on_save_checkpoint(trainer, module, content)
            del content["current_model_state"], content["averaging_state"]

"""Training for 8 bits: each pass computes with matrices and inputs as int8 rounds them, and the
gradient goes straight through the rounding, to the weights as they are.

Sources: Bengio et al. 2013, arXiv:1308.3432; Jacob et al. 2018, arXiv:1712.05877.
"""

from typing import Any

import lightning as L
import torch
from torch import Tensor, nn

from seq2seq.checkpoint.int8 import is_rounded
from seq2seq.functional.int8 import quantize_matrix, quantize_rows


class Int8Passes(L.Callback):
    """Rounds the matrices of a model before a forward pass and puts them back after the backward
    pass, so that the optimizer and checkpoints see weights that are not rounded; validation
    computes with rounded ones. The inputs of its `nn.Linear` are rounded while it trains.
    """

    def __init__(self) -> None:
        self.weights: list[tuple[nn.Parameter, Tensor]] = []  # what was rounded, as it was
        self.hooks: list[Any] = []

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        layers = (each for each in pl_module.modules() if isinstance(each, nn.Linear))
        self.hooks = [layer.register_forward_pre_hook(round_input) for layer in layers]

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for hook in self.hooks:
            hook.remove()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any
    ) -> None:
        self._round(pl_module)

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._restore()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._round(pl_module)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._restore()

    @torch.no_grad()
    def _round(self, module: nn.Module) -> None:
        for weight in filter(is_rounded, module.parameters()):
            self.weights.append((weight, weight.detach().clone()))
            integers, scales = quantize_matrix(weight)
            weight.copy_(integers * scales)

    @torch.no_grad()
    def _restore(self) -> None:
        for weight, before in self.weights:
            weight.copy_(before)
        self.weights.clear()


def round_input(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """The inputs of a layer (..., K), each row as int8 reads it; its gradient is passed on."""
    (x,) = inputs
    integers, scales = quantize_rows(x.reshape(-1, x.shape[-1]))
    rounded = (integers * scales).view_as(x)
    return (x + (rounded - x).detach(),)

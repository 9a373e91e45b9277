"""Finds the decoder layer that aligns words best, without reference links."""

from typing import Any

import lightning as L
import torch

from seq2seq.alignment.choice import SHARPEST, layer_entropies
from seq2seq.base.symbols import PAD
from seq2seq.data.batches.batch import Batch
from seq2seq.models import PassOptions
from seq2seq.training.callbacks import gather_from_all

ENOUGH = 100  # sentences: more would take memory, for the weights of all layers and heads


class SharpestLayer(L.Callback):
    """Records in each checkpoint the decoder layer whose cross-attention is sharpest on the first
    sentences of the validation set, see `guess_choice`: as many as are translated, but at most
    `ENOUGH`.
    """

    def __init__(self) -> None:
        self.layer: int | None = None
        self.sums = torch.zeros(0)  # entropies of the layers, of this process's sentences, (L,)

    def state_dict(self) -> dict[str, Any]:
        return {SHARPEST: self.layer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.layer = state[SHARPEST]

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        pl_module.saved["config"][SHARPEST] = self.layer

    def on_validation_epoch_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        layers = len(pl_module.model.cross_attentions)
        self.sums = torch.zeros(layers, dtype=torch.float64, device=pl_module.device)

    @torch.compiler.set_stance("force_eager")  # type: ignore[untyped-decorator]
    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Batch, index: int, *_: Any
    ) -> None:
        model, count = pl_module.model, min(len(pl_module.sentences), ENOUGH)
        rows = (batch.indices < count).nonzero()[0].tolist()
        if not rows or not all(each.shows_weights for each in model.cross_attentions):
            return
        target = batch.target[rows, :-1]
        weights = model(batch.source[rows], target, PassOptions(need_weights=True)).weights
        self.sums += (layer_entropies(weights) * (target != PAD)).sum((1, 2))

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        sums = torch.stack(gather_from_all(self.sums.cpu())).sum(0)
        self.layer = int(sums.argmin()) + 1 if sums.any() else None
        pl_module.saved["config"][SHARPEST] = self.layer

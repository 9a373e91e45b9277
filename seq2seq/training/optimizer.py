"""The optimizer of a run, and which parameters learn at a rate of their own."""

from collections import defaultdict
from typing import Any

import torch

from seq2seq.attention import Attention
from seq2seq.models import Seq2Seq
from seq2seq.training.options import OptimizerOptions

OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def build_optimizer(
    model: Seq2Seq, options: OptimizerOptions, fused: bool
) -> torch.optim.Optimizer:
    """Adam or AdamW as the options say; `fused` updates all parameters in one pass."""
    return OPTIMIZERS[options.name](
        parameter_groups(model, options.lr),
        lr=options.lr,
        betas=options.betas,
        eps=options.eps,
        weight_decay=options.weight_decay,
        fused=fused,
    )


def parameter_groups(model: Seq2Seq, lr: float) -> list[dict[str, Any]]:
    """The parameters of each learning rate, the model's own first; see `Attention.paces`."""
    paces: dict[Any, float] = {}
    for module in model.modules():
        if isinstance(module, Attention):
            paces |= module.paces()
    groups: dict[float, list[Any]] = defaultdict(list, {1.0: []})
    for parameter in model.parameters():
        groups[paces.get(parameter, 1.0)].append(parameter)
    return [{"params": found, "lr": lr * pace} for pace, found in groups.items()]

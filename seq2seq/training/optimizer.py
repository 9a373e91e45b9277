"""The optimizer of a run, the learning rates of its parameters, and the schedules."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, AdamW

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table, check_range
from seq2seq.models import Seq2Seq
from seq2seq.training.config.options import OptimizerOptions

OPTIMIZERS: dict[str, type[Adam]] = {"adam": Adam, "adamw": AdamW}


def build_optimizer(
    model: Seq2Seq, options: OptimizerOptions, fused: bool
) -> torch.optim.Optimizer:
    """Build Adam or AdamW from its options; `fused` updates all parameters in one pass."""
    arguments = asdict(options)
    optimizer = OPTIMIZERS[arguments.pop("name")]
    return optimizer(learning_rate_groups(model, options.lr), **arguments, fused=fused)


def learning_rate_groups(model: Seq2Seq, lr: float) -> list[dict[str, Any]]:
    """Parameter groups by learning rate, `lr` itself first; see `Attention.lr_multipliers`."""
    lr_multipliers: dict[Any, float] = {}
    for attention in model.attentions:
        lr_multipliers |= attention.lr_multipliers()
    groups: dict[float, list[Any]] = defaultdict(list, {1.0: []})
    for parameter in model.parameters():
        groups[lr_multipliers.get(parameter, 1.0)].append(parameter)
    return [{"params": params, "lr": lr * multiplier} for multiplier, params in groups.items()]


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float | None) -> None:
    """Scale all gradients down together if their norm exceeds `limit`; None = no limit.

    Lightning refuses to clip gradients for a fused optimizer under mixed precision, since float16
    gradients may still be scaled. Call this just before the update, when they no longer are.
    """
    if limit:
        nn.utils.clip_grad_norm_(parameters, limit)


Schedule = Callable[[int], float]


def warmup_factor(step: int, warmup: int) -> float:
    """The factor of a linear warmup, from 1 / warmup at the first update (step 0) to 1."""
    return min(1.0, (step + 1) / max(1, warmup))


def inverse_sqrt(*, warmup: int) -> Schedule:
    """Linear warmup, then 1 / sqrt(step) decay. Source: Vaswani et al. 2017, arXiv:1706.03762."""
    return lambda step: min(warmup_factor(step, warmup), (max(1, warmup) / (step + 1)) ** 0.5)


def cosine(*, warmup: int, steps: int) -> Schedule:
    """Linear warmup, then half a cosine that would reach 0 one update after the last.

    Raises: ConfigError if `steps` is below 1.
    """
    if steps < 1:
        raise ConfigError(
            f"schedule.steps={steps}: a cosine needs an end. Set trainer.max_steps=10000, for "
            "example, or take schedule=inverse_sqrt"
        )

    def factor(step: int) -> float:
        if step < warmup:
            return warmup_factor(step, warmup)
        progress = min(1.0, (step + 1 - warmup) / (max(0, steps - warmup) + 1))
        return 0.5 * (1 + math.cos(math.pi * progress))

    return factor


def constant(*, warmup: int) -> Schedule:
    """Linear warmup, then no change."""
    return lambda step: warmup_factor(step, warmup)


SCHEDULES: Table[Callable[..., Schedule]] = Table(
    "schedule", {"inverse_sqrt": inverse_sqrt, "cosine": cosine, "constant": constant}
)


def build_schedule(options: Mapping[str, Any]) -> Schedule:
    """The schedule that a node of conf/schedule describes.

    Raises: ConfigError if the name or an option is wrong.
    """
    build: Callable[[], Schedule] = SCHEDULES.configure(options, "schedule")
    check_range("schedule.warmup", options.get("warmup"), 0)
    return build()

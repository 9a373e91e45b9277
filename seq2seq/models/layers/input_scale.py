"""The scale of a linear layer's inputs in 8 bits, known before it computes: x ~ integers * scale.

A buffer of the layer that is no part of its state: int8 reads it, nothing else does.
"""

from collections.abc import Mapping

import torch
from torch import nn

NAME = "input_scale"


def set_input_scales(model: nn.Module, scales: Mapping[str, float]) -> None:
    """Give linear layers of a model, by name, their scales. Raises: KeyError for another name."""
    layers = {name: each for name, each in model.named_modules() if type(each) is nn.Linear}
    for name, scale in scales.items():
        layers[name].register_buffer(NAME, torch.tensor(scale), persistent=False)


def input_scale_of(linear: nn.Module) -> float:
    """The calibrated scale of a layer's inputs; 0 if each row has its own."""
    return float(getattr(linear, NAME, 0.0))

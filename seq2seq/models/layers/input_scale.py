"""Calibrated scales for the 8-bit inputs of linear layers: x ~ integers * scale.

A scale is a buffer of its layer, but not part of its state dict. Only int8 decoding reads it.
"""

from collections.abc import Mapping

import torch
from torch import nn

NAME = "input_scale"


def set_input_scales(model: nn.Module, scales: Mapping[str, float]) -> None:
    """Set the input scales of linear layers, by name. Raises: KeyError for any other name."""
    layers = {name: each for name, each in model.named_modules() if type(each) is nn.Linear}
    for name, scale in scales.items():
        layers[name].register_buffer(NAME, torch.tensor(scale), persistent=False)


def input_scale_of(linear: nn.Module) -> float:
    """The calibrated scale of a layer's inputs; 0 if each row has its own."""
    return float(getattr(linear, NAME, 0.0))

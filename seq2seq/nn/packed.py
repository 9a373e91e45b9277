"""Linear layers for inference on a CPU: in bfloat16 with a packed matrix, and in 8-bit integers."""

from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn

from seq2seq.functional.int8 import PACKED_FOR, Int8Weight, int8_linear, int8_weight


class PackedLinear(nn.Module):
    """A linear map in bfloat16, (..., K) -> (..., O), that does not reorder its matrix at every
    call as `nn.Linear` does. On a CPU only, without gradients; the packed matrix is not saved.

    Raises: RuntimeError, NotImplementedError or AttributeError where PyTorch or the processor has
    no such kernel.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # For code that reads the matrix without calling the layer.
        self.weight, self.bias = linear.weight, linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), PACKED_FOR)

    @classmethod
    def of(cls, linear: nn.Linear) -> Self | nn.Linear:
        """The layer packed, or unchanged where packing is not possible."""
        try:
            packed = cls(linear)
            packed(linear.weight.new_zeros(2, linear.in_features))
        except (AttributeError, NotImplementedError, RuntimeError):
            return linear
        return packed

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if not x.numel():
            return x.new_zeros(*x.shape[:-1], len(self.weight))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return out


class Int8Linear(nn.Module):
    """A linear map in 8-bit integers: the matrix is rounded once, the inputs row by row at each
    call. (..., K) -> (..., O) in the type of the input.

    On a CPU only, without gradients, and never saved: it is made from an `nn.Linear`, which stays
    unchanged.
    """

    def __init__(self, weight: Int8Weight, bias: Tensor | None):
        super().__init__()
        self.int8, self.bias = weight, bias
        self.in_features, self.out_features = weight.columns.shape

    @classmethod
    @torch.no_grad()
    def of(cls, linear: nn.Linear) -> Self:
        bias = None if linear.bias is None else linear.bias.detach().float()
        return cls(int8_weight(linear.weight), bias)

    @cached_property
    def weight(self) -> Tensor:
        """The rounded matrix (O, K) in float32, for code that reads it without calling the layer;
        made on first access.
        """
        return self.int8.columns.t() * self.int8.scale[:, None]

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:-1], self.out_features)
        if not x.numel():
            return x.new_zeros(shape)
        rows = x.detach().reshape(-1, self.in_features)
        return int8_linear(rows, self.int8, self.bias).view(shape).to(x.dtype)

"""Linear layers whose matrix lies in the order that a CPU's bfloat16 kernel reads."""

from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn

from seq2seq.functional.int8 import Int8Weight, int8_linear, int8_weight

PACKED_FOR = 64  # rows that the order is chosen for; any number is computed


class PackedLinear(nn.Module):
    """A linear map in bfloat16, (..., K) -> (..., O), that does not reorder its matrix at every
    call as `nn.Linear` does. On a CPU only, without gradients, and nothing more of it is saved.

    Raises: RuntimeError, NotImplementedError or AttributeError where PyTorch or the processor has
    no such kernel.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # Some read the matrix and do not call the layer.
        self.weight, self.bias = linear.weight, linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), PACKED_FOR)

    @classmethod
    def of(cls, linear: nn.Linear) -> Self | nn.Linear:
        """The layer packed, or as it is where that cannot be done."""
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
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


class Int8Linear(nn.Module):
    """A linear map whose matrix is rounded once, and whose inputs are rounded row by row as they
    come, to 8-bit integers. (..., K) -> (..., O) in the type of the input.

    On a CPU only, without gradients, and nothing of it is saved: it is made from a `nn.Linear`
    and leaves that as it is.
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
        """The rounded matrix (O, K) in float32, for those that read it and do not call the layer:
        made when it is first asked for.
        """
        return self.int8.columns.t() * self.int8.scale[:, None]

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:-1], self.out_features)
        if not x.numel():
            return x.new_zeros(shape)
        rows = x.detach().reshape(-1, self.in_features)
        return int8_linear(rows, self.int8, self.bias).view(shape).to(x.dtype)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"

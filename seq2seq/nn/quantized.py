"""Linear layers in 8-bit integers, for decoding on a CPU."""

from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn

from seq2seq.functional.int8 import Int8Weight, int8_linear, int8_weight


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

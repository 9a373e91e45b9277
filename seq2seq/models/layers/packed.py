"""Linear layers for inference on a CPU in bfloat16, with a packed matrix."""

from typing import Self

import torch
from torch import Tensor, nn

PACKED_FOR = 64  # rows that the packed layout is tuned for; any number works


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

"""Linear maps in 8-bit integers on torch, where the native decoder is not available.

    y = (q w^T) * scales + b        q and w rounded to [-127, 127]

The scale of each row of the weight is its largest magnitude / 127. So is the scale of each row of
x, unless the layer has a calibrated scale: a row's result does not depend on the rest of the batch.
The sum of integer products is exact, so the native maps of linear.py give the same numbers.
"""

from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.functional.int8 import quantize_matrix, quantize_rows
from seq2seq.models.layers.input_scale import input_scale_of

# Inputs whose sum fits into 32 bits in all kernels: kernels for AVX-512 add up to 255 * 127 for
# each input, all others 127 * 127, which would allow 133,144.
MAX_INPUTS = (2**31 - 1) // (255 * 127)


MAX_INPUTS_IN_FLOAT = 1040  # 127 * 127 * 1040 < 2^24: float32 adds integers up to there exactly
# Multiplications up to which the packed kernel's overhead exceeds its gain; measured for 8 to
# 320 rows and matrices of 256 x 256 to 8000 x 256.
SMALL_PRODUCT = 2**22
PACKED_FOR = 64  # rows that the packed layout is tuned for; any number works


class Int8Matrix(NamedTuple):
    """A matrix (O, K) in integers, and a scale for each of its rows."""

    columns: Tensor  # (K, O) int8, a transposed view of (O, K)
    scale: Tensor  # (O,) float32
    zeros: Tensor  # (O,) int32
    packed: Tensor | None  # in the fast kernel's layout; None where that kernel is not exact

    @classmethod
    def of(cls, integers: Tensor, scale: Tensor, use_packed: bool) -> "Int8Matrix":
        packed = None
        if use_packed:
            shape = [PACKED_FOR, integers.shape[1]]
            packed = torch.ops.onednn.qlinear_prepack(integers, shape)
        return cls(integers.t(), scale, torch.zeros(len(scale), dtype=torch.int32), packed)

    def product(self, x: Tensor) -> Tensor:
        """The exact product of integers, (R, K) times (K, O), times the scales: float32."""
        is_large = len(x) * self.columns.numel() > SMALL_PRODUCT
        # The packed kernel reorders the matrix again for a single row.
        if self.packed is not None and len(x) > 1 and is_large:
            return packed_product(x, self)
        return int_mm_product(x, self) if is_exact(int_mm_product) else float_product(x, self)


class Int8Linear(nn.Module):
    """A linear map in 8-bit integers, (..., K) -> (..., O) in the type of the input. The matrix is
    rounded once, the inputs row by row at each call.

    On a CPU only, without gradients, and never saved: it is made from an `nn.Linear`, which stays
    unchanged.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        integers, scale = quantize_matrix(linear.weight)
        self.matrix = Int8Matrix.of(integers, scale.squeeze(1), is_exact(packed_product))
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        self.input_scale = input_scale_of(linear)
        self.in_features, self.out_features = linear.in_features, linear.out_features

    @cached_property
    def weight(self) -> Tensor:
        """The rounded matrix (O, K) in float32, for code that reads it without calling the layer;
        made on first access.
        """
        return self.matrix.columns.t() * self.matrix.scale[:, None]

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:-1], self.out_features)
        if not x.numel():
            return x.new_zeros(shape)
        integers, scale = quantize_rows(x.reshape(-1, self.in_features), self.input_scale)
        y = self.matrix.product(integers)
        y = y.mul_(scale) if self.bias is None else torch.addcmul(self.bias, y, scale, out=y)
        return y.view(shape).to(x.dtype)


def packed_product(x: Tensor, matrix: Int8Matrix) -> Tensor:
    """The product by oneDNN, with one scale for each output and none for x.

    It gets x + 128 with zero point 128, because without AMX a reference kernel computes signed
    inputs, thousands of times slower.
    """
    _, scale, zeros, packed = matrix
    unsigned = x.view(torch.uint8) ^ 128
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        unsigned, 1.0, 128, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product


def int_mm_product(x: Tensor, matrix: Int8Matrix) -> Tensor:
    if x.shape[1] == 1:
        return float_product(x, matrix)  # torch would return memory that nothing was written to
    return torch._int_mm(x, matrix.columns) * matrix.scale


def float_product(x: Tensor, matrix: Int8Matrix) -> Tensor:
    """The product in floats wide enough to be exact, for use where no integer kernel is."""
    dtype = torch.float32 if x.shape[1] <= MAX_INPUTS_IN_FLOAT else torch.float64
    return (x.to(dtype) @ matrix.columns.to(dtype)).float() * matrix.scale


@cache
def is_exact(product: Callable[[Tensor, Int8Matrix], Tensor]) -> bool:
    """True if a kernel exists and is exact at the largest sums, where CPUs without VNNI saturate.

    Both kernels are private to PyTorch. If a version lacks or has changed one, it is not used.
    """
    x = torch.tensor([1, -1, 127, -127], dtype=torch.int8)[:, None].repeat(1, 64)
    integers = torch.tensor([127, -127, 127, 5, -3], dtype=torch.int8)[:, None].repeat(7, 64)
    scale = torch.linspace(0.001, 0.1, len(integers))
    try:
        matrix = Int8Matrix.of(integers, scale, use_packed=product is packed_product)
        return torch.equal(product(x, matrix), float_product(x, matrix))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False

"""Linear maps in 8-bit integers: y = (q w^T) * scales + b, with q and w rounded to [-127, 127].

Each row of x and each row of the weight has its own scale, its largest magnitude / 127, so a row's
result does not depend on the rest of the batch. The sum of integer products is exact, however it
is computed.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

LEVELS = 127
TINY = torch.tensor(1e-30)  # the scale of a row of zeros: its inverse is still a finite float32
LONGEST_IN_FLOAT = 1040  # 127 * 127 * 1040 < 2^24: float32 adds integers up to there exactly
# Inputs whose sum fits into 32 bits in all kernels: those for AVX-512 add up to 255 * 127 for each,
# all others 127 * 127, which would allow 133,144.
LONGEST = (2**31 - 1) // (255 * 127)
# Multiplications up to which the packed kernel's overhead exceeds its gain; measured for 8 to
# 320 rows and matrices of 256 x 256 to 8000 x 256.
SMALL_PRODUCT = 2**22
PACKED_FOR = 64  # rows that the packed layout is tuned for; any number works


class Int8Weight(NamedTuple):
    """A matrix (O, K) in integers, and a scale for each of its rows."""

    columns: Tensor  # (K, O) int8, a transposed view of (O, K)
    scale: Tensor  # (O,) float32
    zeros: Tensor  # (O,) int32
    packed: Tensor | None  # in the fast kernel's layout; None where that kernel is not exact


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row rounded to 255 levels, without gradients: x (R, K) -> integers (R, K) int8, scale
    (R, 1) float32.

    |x - integers * scale| <= scale / 2 up to rounding. The scale of a row with an infinity or a NaN
    is not finite, and neither is any result of that row.
    """
    x = x.float()
    buffer = x.abs()  # written twice: a second buffer of this size would not fit into the cache
    scale = torch.add(TINY, buffer.amax(-1, keepdim=True), alpha=1 / LEVELS)
    return torch.mul(x, scale.reciprocal(), out=buffer).round_().to(torch.int8), scale


def int8_weight(weight: Tensor) -> Int8Weight:
    """The matrix (O, K) of a linear map, rounded."""
    integers, scale = quantize_rows(weight.detach())
    return packed_weight(integers, scale.squeeze(1), use_packed=is_exact(packed_product))


def packed_weight(integers: Tensor, scale: Tensor, use_packed: bool) -> Int8Weight:
    zeros = torch.zeros(len(scale), dtype=torch.int32)
    packed = None
    if use_packed:
        shape = [PACKED_FOR, integers.shape[1]]
        packed = torch.ops.onednn.qlinear_prepack(integers, shape)
    return Int8Weight(integers.t(), scale, zeros, packed)


def int8_linear(x: Tensor, weight: Int8Weight, bias: Tensor | None) -> Tensor:
    """x (R, K) -> (R, O) float32, for R, K >= 1; without gradients."""
    integers, scale = quantize_rows(x)
    product = scaled_product(integers, weight)
    return product.mul_(scale) if bias is None else torch.addcmul(bias, product, scale, out=product)


def scaled_product(x: Tensor, weight: Int8Weight) -> Tensor:
    """The exact product of integers, (R, K) times (K, O), times the weight's scales: float32."""
    # The packed kernel reorders the weight again for a single row.
    if weight.packed is not None and len(x) > 1 and len(x) * weight.columns.numel() > SMALL_PRODUCT:
        return packed_product(x, weight)
    return int_mm_product(x, weight) if is_exact(int_mm_product) else float_product(x, weight)


def packed_product(x: Tensor, weight: Int8Weight) -> Tensor:
    """oneDNN's linear map of integers, with one scale for each output and none for x.

    It takes x + 128 with zero point 128: without AMX, signed inputs are computed by a
    reference kernel, thousands of times slower.
    """
    _, scale, zeros, packed = weight
    shifted = x.view(torch.uint8) ^ 128
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        shifted, 1.0, 128, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product


def int_mm_product(x: Tensor, weight: Int8Weight) -> Tensor:
    return torch._int_mm(x, weight.columns) * weight.scale


def float_product(x: Tensor, weight: Int8Weight) -> Tensor:
    """The product in floating point, wide enough for its sums, where no integer kernel is exact."""
    dtype = torch.float32 if x.shape[1] <= LONGEST_IN_FLOAT else torch.float64
    return (x.to(dtype) @ weight.columns.to(dtype)).float() * weight.scale


@cache
def is_exact(product: Callable[[Tensor, Int8Weight], Tensor]) -> bool:
    """Does a kernel exist, and is it exact at the largest sums, where CPUs without VNNI saturate?

    Both kernels are private to PyTorch: one that a version lacks or has changed is not used.
    """
    x = torch.tensor([1, -1, 127, -127], dtype=torch.int8)[:, None].repeat(1, 64)
    integers = torch.tensor([127, -127, 127, 5, -3], dtype=torch.int8)[:, None].repeat(7, 64)
    scale = torch.linspace(0.001, 0.1, len(integers))
    try:
        weight = packed_weight(integers, scale, use_packed=product is packed_product)
        return torch.equal(product(x, weight), float_product(x, weight))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False

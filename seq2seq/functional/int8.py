"""Linear maps in 8-bit integers: y = (q w^T) * scales + b, where q and w are rounded to [-127, 127].

Each row of x and each row of the weight has a scale of its own, its largest magnitude / 127, so a
row's result does not depend on what else is in the batch. The sum of integer products is exact,
whichever way it is computed.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

LEVELS = 127.0
TINY = 1e-30  # the least magnitude that is told from zero: 127 / TINY is still a finite float32
LONGEST_IN_FLOAT = 1040  # 127 * 127 * 1040 < 2^24: float32 adds integers up to there exactly
SMALL_PRODUCT = 2**22  # multiplications below which handling the packed weight costs more than it
# saves, measured for 8 to 320 rows and matrices of 256 x 256 to 8000 x 256
PACKED_FOR = 64  # rows that the packed order is chosen for


class Int8Weight(NamedTuple):
    """A matrix (O, K) in integers, a scale for each of its rows."""

    integers: Tensor  # (O, K) int8
    scale: Tensor  # (O,) float32
    packed: Tensor | None  # in the order of the fast kernel; None where that kernel is not right


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row rounded to 255 levels: x (R, K) -> integers (R, K) int8, scale (R, 1) float32.

    |x - integers * scale| <= scale / 2 up to rounding. A row with an infinity or a NaN has the
    scale NaN.
    """
    x = x.float()
    largest = x.abs().amax(-1, keepdim=True).clamp_min_(TINY)
    largest.nan_to_num_(nan=torch.nan, posinf=torch.nan)
    return (x * (LEVELS / largest)).round_().to(torch.int8), largest.div_(LEVELS)


def int8_weight(weight: Tensor) -> Int8Weight:
    """The matrix (O, K) of a linear map, rounded."""
    integers, scale = quantize_rows(weight)
    packed = pack(integers) if packed_is_exact() else None
    return Int8Weight(integers, scale.squeeze(1), packed)


def int8_linear(x: Tensor, weight: Int8Weight, bias: Tensor | None) -> Tensor:
    """x (R, K) -> (R, O) float32, for R, K >= 1."""
    integers, scale = quantize_rows(x)
    product = scaled_product(integers, weight)
    return product.mul_(scale) if bias is None else torch.addcmul(bias, product, scale, out=product)


def scaled_product(x: Tensor, weight: Int8Weight) -> Tensor:
    """The exact product of integers, (R, K) times (K, O), times the weight's scales: float32."""
    small = len(x) * weight.integers.numel() <= SMALL_PRODUCT
    # The kernel repacks the weight at every call with a single row.
    if weight.packed is not None and not small and len(x) > 1:
        return packed_product(x, weight.packed, weight.scale)
    if int_mm_is_exact():
        return torch._int_mm(x, weight.integers.t()) * weight.scale
    return float_product(x, weight.integers).float() * weight.scale


def float_product(x: Tensor, weight: Tensor) -> Tensor:
    """The product of integers where no integer kernel can be trusted: (R, K), (O, K) -> (R, O)."""
    dtype = torch.float32 if x.shape[1] <= LONGEST_IN_FLOAT else torch.float64
    return x.to(dtype) @ weight.to(dtype).t()


def pack(weight: Tensor) -> Tensor:
    return torch.ops.onednn.qlinear_prepack(weight, [PACKED_FOR, weight.shape[1]])


def packed_product(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """oneDNN's linear map of integers, with one scale for each output and none for x.

    What enters is x + 128 and the zero point 128: without AMX, signed inputs are computed by a
    reference kernel, thousands of times slower.
    """
    shifted = x.view(torch.uint8) ^ 128
    zero = torch.zeros(len(scale), dtype=torch.int32)
    return torch.ops.onednn.qlinear_pointwise(
        shifted, 1.0, 128, packed, scale, zero, None, 1.0, 0, torch.float32, "none", [], ""
    )


@cache
def packed_is_exact() -> bool:
    return agrees(lambda x, w, scale: packed_product(x, pack(w), scale))


@cache
def int_mm_is_exact() -> bool:
    return agrees(lambda x, w, scale: torch._int_mm(x, w.t()) * scale)


def agrees(kernel: Callable[[Tensor, Tensor, Tensor], Tensor]) -> bool:
    """Is a kernel there, and right where processors without VNNI saturate: at the largest sums?

    Both are private to PyTorch: what a version does not have or calls differently is not used.
    """
    x = torch.tensor([1, -1, 127, -127], dtype=torch.int8)[:, None].expand(4, 64).contiguous()
    weight = torch.tensor([127, -127, 127, 5, -3], dtype=torch.int8)[:, None].repeat(7, 64)
    scale = torch.linspace(0.001, 0.1, len(weight))
    try:
        found = kernel(x, weight, scale)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.equal(found, float_product(x, weight) * scale)

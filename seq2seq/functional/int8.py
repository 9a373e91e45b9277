"""Rounding to integers of -127 ... 127, each row with a scale of its own: x ~ integers * scale."""

import torch
from torch import Tensor

LEVELS = 127
TINY = torch.tensor(1e-30)  # the scale of a row of zeros: its inverse is still a finite float32
SCALE_BITS = 17  # of the scales of a matrix: with the 7 of an integer, the 24 of a float32


def quantize_rows(x: Tensor, scale: float = 0.0) -> tuple[Tensor, Tensor]:
    """Each row rounded to 255 levels, without gradients: x (R, K) -> integers (R, K) int8, scales
    (R, 1) float32.

    Args:
        scale: scale of all rows; what is beyond 127 of it is cut. 0: each row has its own, the
            largest magnitude / 127, and |x - integers * scale| <= scale / 2 up to rounding.

    The scale of a row with an infinity or a NaN is not finite, and neither is any result of that
    row.
    """
    x = x.detach().float()
    buffer = x.abs()  # written again: a second buffer of this size would not fit into the cache
    if scale:
        scales = buffer.mul_(0).sum(-1, keepdim=True) + scale
    else:
        scales = torch.add(TINY, buffer.amax(-1, keepdim=True), alpha=1 / LEVELS)
    torch.mul(x, scales.reciprocal(), out=buffer)
    return buffer.clamp_(-LEVELS, LEVELS).round_().to(torch.int8), scales


def quantize_matrix(weight: Tensor) -> tuple[Tensor, Tensor]:
    """As `quantize_rows`, with scales of 17 bits: weight (..., O, K) -> integers int8, scale
    (..., O, 1) float32.

    Their products with the integers are exact, so `integers * scale` rounded again gives the same
    integers and scales, to the bit.
    """
    weight = weight.detach().float()
    buffer = weight.abs()
    mantissa, exponent = (buffer.amax(-1, keepdim=True) / LEVELS).clamp(min=TINY).frexp()
    scale = ((mantissa * 2**SCALE_BITS).round() / 2**SCALE_BITS).ldexp(exponent)
    return torch.div(weight, scale, out=buffer).round_().to(torch.int8), scale

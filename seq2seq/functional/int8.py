"""Rounding to integers from -127 to 127, with a scale for each row: x ~ integers * scale."""

import torch
from torch import Tensor

LEVELS = 127
TINY = torch.tensor(1e-30)  # the scale of a row of zeros; its inverse is still a finite float32
SCALE_BITS = 17  # bits of a matrix's scales: with the 7 of an integer they fit the 24 of a float32


def quantize_rows(x: Tensor, scale: float = 0.0) -> tuple[Tensor, Tensor]:
    """Round each row to 255 levels, without gradients.

    Args:
        x: (R, K).
        scale: scale of all rows; values beyond 127 times the scale are clipped. 0: each row has its
            own scale, its largest magnitude / 127, and |x - integers * scale| <= scale / 2 up to
            rounding.

    Returns: integers (R, K) int8, and scales (R, 1) float32. If a row has an infinity or a NaN, its
        scale is not finite, and neither is anything computed from it.
    """
    x = x.detach().float()
    buffer = x.abs()  # reused below: a second buffer of this size would not fit into the cache
    if scale:
        scales = buffer.mul_(0).sum(-1, keepdim=True) + scale
    else:
        scales = torch.add(TINY, buffer.amax(-1, keepdim=True), alpha=1 / LEVELS)
    torch.mul(x, scales.reciprocal(), out=buffer)
    return buffer.clamp_(-LEVELS, LEVELS).round_().to(torch.int8), scales


def quantize_matrix(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Like `quantize_rows`, for a weight (..., O, K), with scales that are rounded to 17 bits.

    The products `integers * scale` are therefore exact in float32, and quantizing them again gives
    the same integers and scales, bit for bit.

    Returns: integers int8 in the shape of the weight, and scales (..., O, 1) float32.
    """
    weight = weight.detach().float()
    buffer = weight.abs()
    mantissa, exponent = (buffer.amax(-1, keepdim=True) / LEVELS).clamp(min=TINY).frexp()
    scale = ((mantissa * 2**SCALE_BITS).round() / 2**SCALE_BITS).ldexp(exponent)
    return torch.div(weight, scale, out=buffer).round_().to(torch.int8), scale

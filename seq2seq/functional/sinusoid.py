"""Sinusoidal position vectors."""

import torch
from torch import Tensor


def sinusoid(positions: Tensor, dim: int) -> Tensor:
    """A vector for each position: sin(p w_i) in the first half, cos(p w_i) in the second, w_i =
    10000^(-2i/dim).

    Args:
        positions: (...,) whole numbers.
        dim: E; if it is odd, the last cosine is left out.

    Returns: (..., E), float32 (bfloat16 cannot tell position 256 from 257).
    Source: Vaswani et al. 2017, arXiv:1706.03762, with the halves side by side instead of
    interleaved.
    """
    half = torch.arange((dim + 1) // 2, device=positions.device, dtype=torch.float32)
    angle = positions.float()[..., None] * 10_000.0 ** (-2 * half / dim)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)[..., :dim]

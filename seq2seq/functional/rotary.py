"""Rotary position embedding: a position is an angle by which pairs of numbers are turned."""

import torch
from torch import Tensor


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Turn the pair (x_i, x_{i + D/2}) by the angle p * base^(-2i/D), so that q . k depends on p_q
    - p_k only.

    Args:
        x: (B, H, T, D), D even.
        positions: (T,), or (B, T) where rows stand at different places.
        base: wavelengths run from 2 pi to 2 pi * base.

    Returns: (B, H, T, D) in the type of `x`; angles are float32 at least.
    Raises: ValueError if D is odd.
    Source: Su et al. 2021, arXiv:2104.09864, in the "half" layout.
    """
    D = x.shape[-1]
    if D % 2:
        raise ValueError(f"rotary positions need an even head width, not {D}")
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    half = torch.arange(D // 2, device=x.device, dtype=wide)
    angle = positions.to(wide)[..., None] * base ** (-2 * half / D)  # (T, D / 2) or (B, T, D / 2)
    if angle.dim() == 3:
        angle = angle[:, None]
    cos, sin = angle.cos(), angle.sin()
    first, second = x.to(wide).chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)

"""Dropout whose random numbers are cheap on a CPU."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as torch_dropout

LEVELS = 2**16  # probabilities are multiples of 1 / LEVELS on a CPU


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and divide the others by 1 - p; p = 0 returns x itself.

    torch's CPU generator is serial, and torch's dropout draws once per element: the largest single
    cost of a small model's update. Here 16 bits decide, so that one draw serves four elements.

    Args:
        x: any shape.
        p: 0 <= p < 1, rounded to a multiple of 2^-16 on a CPU.

    Source: Srivastava et al. 2014, JMLR 15.
    """
    if p == 0:
        return x
    return torch_dropout(x, p) if x.device.type != "cpu" else x * keep_factors(x, p)


def keep_factors(like: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """The factors of dropout: 0 with probability p, else 1 / (1 - p).

    Args:
        like: a tensor of the shape, dtype and device of the factors.
        p: 0 <= p < 1, rounded to a multiple of 2^-16.
        generator: on the same device; None = torch's default.
    """
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device)
    bits.random_(-(2**63), None, generator=generator)
    keep = bits.view(torch.int16)[: like.numel()] >= dropped - LEVELS // 2
    return keep.view(like.shape).to(like.dtype).mul_(LEVELS / (LEVELS - dropped))

"""Dropout whose random numbers are cheap on a CPU."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as torch_dropout

LEVELS = 2**16  # probabilities are multiples of 1 / LEVELS on a CPU


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each number with probability p and divide the others by 1 - p; p = 0 returns x itself.

    torch's generator on a CPU is serial, and its own dropout draws a number an element: the dearest
    single thing in a small model's update. Here 16 bits decide, four elements a draw.

    Args:
        x: any shape.
        p: 0 <= p < 1, rounded to a multiple of 2^-16 on a CPU.

    Source: Srivastava et al. 2014, JMLR 15.
    """
    if p == 0:
        return x
    if x.device.type != "cpu":
        return torch_dropout(x, p)
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    keep = bits.view(torch.int16)[: x.numel()] >= dropped - LEVELS // 2
    return x * keep.view(x.shape).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))

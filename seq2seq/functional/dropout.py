"""Dropout whose random numbers are cheap on a CPU, or the same everywhere."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as torch_dropout

LEVELS = 2**16  # probabilities are multiples of 1 / LEVELS on a CPU

# Two odd factors after which each bit of the input changes each of the output half of the time:
# Wellons, "Prospecting for hash functions", 2018. As numbers of 32 bits with a sign.
FIRST, SECOND = 0x7FEB352D, 0x846CA68B - 2**32


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
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # which cannot trace `random_`
        return torch_dropout(x, p)
    return x * keep_factors(x, p)


def keep_factors(like: Tensor, p: float) -> Tensor:
    """The factors of dropout: 0 with probability p, else 1 / (1 - p).

    Args:
        like: a tensor of the shape, dtype and device of the factors.
        p: 0 <= p < 1, rounded to a multiple of 2^-16.
    """
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device)
    bits.random_(-(2**63), None)
    keep = bits.view(torch.int16)[: like.numel()] >= dropped - LEVELS // 2
    return keep.view(like.shape).to(like.dtype).mul_(LEVELS / (LEVELS - dropped))


def keep_factors_at(seed: int, rows: Tensor, columns: Tensor, p: float, like: Tensor) -> Tensor:
    """The factors of dropout for a part of a large matrix, which depend on the seed and on the
    place in the matrix alone: any part can be computed again, by any kernel, on any device.

    A hash of the seed, the row and the column decides, as in `seq2seq.functional.triton.tiles`.

    Args:
        seed: number below 2^62.
        rows: the numbers of rows, (..., T).   columns: those of columns, (S,).
        p: 0 <= p < 1, rounded to a multiple of 2^-32.
        like: a tensor of the dtype of the factors.

    Returns: (..., T, S), 0 with probability p, else 1 / (1 - p).
    """
    row_seed, column_seed = divide(seed)
    x = scramble(rows + row_seed)[..., None] ^ scramble(columns + column_seed)
    x.mul_(FIRST)
    x.bitwise_xor_(shift(x, 15)).mul_(SECOND)
    # Only the high bits count in a comparison, and they depend on all others.
    keep = torch.ge(x, keep_threshold(p), out=torch.empty_like(x, dtype=like.dtype))
    return keep.mul_(1 / (1 - p))


def divide(seed: int) -> tuple[int, int]:
    """A seed below 2^62 as two below 2^31, of rows and of columns."""
    return seed % 2**31, seed >> 31


def keep_threshold(p: float) -> int:
    """The lowest of the numbers of 32 bits, with a sign, that are not dropped."""
    return round(p * 2**32) - 2**31


def scramble(x: Tensor) -> Tensor:
    """A hash of the low 32 bits of integers, as int32; products are modulo 2^32."""
    x = x.to(torch.int32)
    x = (x ^ shift(x, 16)) * FIRST
    x = (x ^ shift(x, 15)) * SECOND
    return x ^ shift(x, 16)


def shift(x: Tensor, bits: int) -> Tensor:
    """int32 shifted to the right, filled with zeros."""
    return (x >> bits).bitwise_and_(2 ** (32 - bits) - 1)

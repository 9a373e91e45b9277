"""Dropout with random numbers that are cheap on a CPU, or the same on every device."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as torch_dropout

LEVELS = 2**16  # probabilities are multiples of 1 / LEVELS on a CPU

# Two odd factors of a hash in which every input bit flips every output bit half of the time:
# Wellons, "Prospecting for hash functions", 2018. Written as signed 32-bit numbers.
FIRST, SECOND = 0x7FEB352D, 0x846CA68B - 2**32


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and divide the others by 1 - p; p = 0 returns x itself.

    torch's CPU generator is serial, and torch's dropout draws a number for every element, which is
    the largest single cost in the update of a small model. Here 16 bits decide for each element, so
    that one draw of 64 bits serves four elements.

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
    """Dropout factors: 0 with probability p, else 1 / (1 - p).

    Args:
        like: tensor with the shape, dtype and device that the factors should have.
        p: 0 <= p < 1, rounded to a multiple of 2^-16.
    """
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device)
    bits.random_(-(2**63), None)
    keep = bits.view(torch.int16)[: like.numel()] >= dropped - LEVELS // 2
    return keep.view(like.shape).to(like.dtype).mul_(LEVELS / (LEVELS - dropped))


def keep_factors_at(seed: int, rows: Tensor, columns: Tensor, p: float, like: Tensor) -> Tensor:
    """Dropout factors for a part of a large matrix.

    A factor depends only on the seed, the row and the column, through a hash: any kernel on any
    device can compute any part again. `seq2seq.functional.triton.tiles` has the same hash.

    Args:
        seed: number below 2^62.
        rows: row numbers, (..., T).   columns: column numbers, (S,).
        p: 0 <= p < 1, rounded to a multiple of 2^-32.
        like: tensor with the dtype that the factors should have.

    Returns: (..., T, S), 0 with probability p, else 1 / (1 - p).
    """
    row_seed, column_seed = divide(seed)
    x = scramble(rows + row_seed)[..., None] ^ scramble(columns + column_seed)
    x.mul_(FIRST)
    x.bitwise_xor_(shift(x, 15)).mul_(SECOND)
    # The comparison depends mostly on the high bits, and these depend on all the others.
    keep = torch.ge(x, keep_threshold(p), out=torch.empty_like(x, dtype=like.dtype))
    return keep.mul_(1 / (1 - p))


def divide(seed: int) -> tuple[int, int]:
    """Split a seed below 2^62 into two seeds below 2^31, one for rows and one for columns."""
    return seed % 2**31, seed >> 31


def keep_threshold(p: float) -> int:
    """Lowest signed 32-bit hash at which an element is kept."""
    return round(p * 2**32) - 2**31


def scramble(x: Tensor) -> Tensor:
    """Hash the low 32 bits of integers to int32; products are modulo 2^32."""
    x = x.to(torch.int32)
    x = (x ^ shift(x, 16)) * FIRST
    x = (x ^ shift(x, 15)) * SECOND
    return x ^ shift(x, 16)


def shift(x: Tensor, bits: int) -> Tensor:
    """Shift int32 numbers to the right, filling with zeros."""
    return (x >> bits).bitwise_and_(2 ** (32 - bits) - 1)

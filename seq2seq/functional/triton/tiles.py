"""The mask, bias and dropout of the tiles of T x S scores in a kernel.

The readable forms are `seq2seq.functional.tiles` and, for the hash that decides which weights are
dropped, `keep_factors_at` in `seq2seq.functional.dropout`.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from seq2seq.functional.triton.blocks import Rows, pointers, rows_of


class DropoutArguments(NamedTuple):
    """Arguments of dropout. A weight is dropped if its hash, a signed 32-bit number, is too low."""

    threshold: Any  # lowest hash of a weight that is kept
    factor: Any  # factor of the weights that are kept, known when the kernel is compiled
    row_seed: Any
    column_seed: Any


class TileArguments(NamedTuple):
    """Shape of the scores (B, H, T, S) of all queries and keys."""

    heads: Any
    T: Any
    S: Any
    causal: Any  # known when the kernel is compiled


def dropout_arguments(p: float, threshold: int, seeds: tuple[int, int]) -> DropoutArguments:
    """Dropout with probability p, with the same threshold and seeds as in the torch version."""
    return DropoutArguments(threshold, tl.constexpr(1 / (1 - p)), *seeds)


def tile_arguments(
    shape: tuple[int, ...], causal: bool, mask: Tensor | None, bias: Tensor | None
) -> tuple[TileArguments, Rows | None, Rows | None]:
    """The arguments `tiles`, `mask` and `bias` of a kernel for scores of this shape (B, H, T, S).

    Mask and bias are broadcast to the shape.
    """
    masks, biases = (None if x is None else rows_of(x.expand(shape)) for x in (mask, bias))
    _, heads, T, S = shape
    return TileArguments(heads, T, S, tl.constexpr(causal)), masks, biases


@triton.jit
def last_key(tiles, end):
    """End of the range of keys that the queries before `end` may read."""
    last = tiles.S
    if tiles.causal:
        last = tl.minimum(last, tiles.S - tiles.T + tl.minimum(end, tiles.T))
    return last


@triton.jit
def first_query(tiles, start, BLOCK: tl.constexpr):
    """Start of the first block with a query that may read a key at `start` or later."""
    first = 0
    if tiles.causal:
        first = tl.maximum(start - (tiles.S - tiles.T), 0) // BLOCK * BLOCK
    return first


@triton.jit
def hide(e, tiles, mask, bias, b, h, i, j):
    """Add the bias to the scores of queries i and keys j, and set hidden ones to -inf."""
    visible = (i[:, None] < tiles.T) & (j[None, :] < tiles.S)
    if bias is not None:
        e += tl.load(pointers(bias, b, h, i, j), mask=visible, other=0.0).to(e.dtype)
    if mask is not None:
        visible &= tl.load(pointers(mask, b, h, i, j), mask=visible, other=0) != 0
    if tiles.causal:
        visible &= j[None, :] <= i[:, None] + (tiles.S - tiles.T)
    return tl.where(visible, e, float("-inf"))


@triton.jit
def keep(tiles, dropout, b, h, i, j, WIDE: tl.constexpr):
    """Dropout factors for the weights of a tile, from a hash of seed, row and column."""
    factors = 1.0
    if dropout is not None:
        row = (b * tiles.heads + h) * tiles.T + i + dropout.row_seed
        x = hash_bits(row)[:, None] ^ hash_bits(j + dropout.column_seed)[None, :]
        x *= 0x7FEB352D
        x = (x ^ (x >> 15)) * 0x846CA68B
        kept = x.to(tl.int32, bitcast=True) >= dropout.threshold
        factors = kept.to(WIDE) * dropout.factor
    return factors


@triton.jit
def hash_bits(x):
    """A 32-bit hash."""
    x = x.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)

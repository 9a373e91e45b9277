"""Scores of one tile in a kernel, with their gradients; readable: `seq2seq.functional.tile_scores`.

With a vector u they are additive, u . tanh(q_i + k_j), without one dot products.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from seq2seq.functional.triton.blocks import load, product, rows_of


class ScoreArguments(NamedTuple):
    """The score of a query and a key."""

    scale: Any  # of a dot product, known when the kernel is compiled
    u: Any  # Rows (1, 1, H, A), or None


def score_arguments(scale: float, u: Tensor | None) -> ScoreArguments:
    """The dot product, or with u (H, A) an additive score."""
    return ScoreArguments(tl.constexpr(scale), None if u is None else rows_of(u[None, None]))


@triton.jit
def compare(score, q, k, h, d, NARROW: tl.constexpr):
    """The scores of a tile, (queries, keys), of the queries and keys of head h, of columns d."""
    if score.u is None:
        e = product(q, tl.trans(k), NARROW) * score.scale
    else:
        e = tl.sum(hidden(q, k) * vector(score, h, d, q.dtype), 2)
    return e


@triton.jit
def query_slope(score, de, q, k, h, d, NARROW: tl.constexpr):
    """The gradient of the queries, from that of the scores."""
    if score.u is None:
        dq = product(de, k, NARROW) * score.scale
    else:
        x = hidden(q, k)
        dq = tl.sum(de[:, :, None] * (1 - x * x) * vector(score, h, d, q.dtype), 1)
    return dq


@triton.jit
def key_slope(score, de, q, k, h, d, NARROW: tl.constexpr):
    """The gradient of the keys, from that of the scores."""
    if score.u is None:
        dk = product(tl.trans(de), q, NARROW) * score.scale
    else:
        x = hidden(q, k)
        dk = tl.sum(de[:, :, None] * (1 - x * x) * vector(score, h, d, q.dtype), 0)
    return dk


@triton.jit
def vector_slope(de, q, k):
    """The gradient of u for each query."""
    return tl.sum(de[:, :, None] * hidden(q, k), 1)


@triton.jit
def vector(score, h, d, WIDE: tl.constexpr):
    """u of head h, (1, 1, A)."""
    return load(score.u, 0, 0, h + tl.arange(0, 1), d, WIDE)[None, :, :]


@triton.jit
def hidden(q, k):
    """tanh(q_i + k_j), (queries, keys, A), without exponentials that overflow."""
    x = q[:, None, :] + k[None, :, :]
    small = tl.exp(-2 * tl.abs(x))
    size = (1 - small) / (1 + small)
    return tl.where(x < 0, -size, size)

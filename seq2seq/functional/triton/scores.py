"""Scores of one tile in a kernel, with their gradients.

`seq2seq.functional.tile_scores` is the readable form. With vectors u, Rows (1, 1, H, A), the scores
are additive, u . tanh(q_i + k_j); if u is None, they are dot products times `scale`.
"""

import triton
import triton.language as tl

from seq2seq.functional.triton.blocks import load, product


@triton.jit
def compare(scale, u, q, k, h, d, NARROW: tl.constexpr):
    """The scores of a tile of head h, (queries, keys), from columns d of queries and keys."""
    if u is None:
        e = product(q, tl.trans(k), NARROW) * scale
    else:
        e = tl.sum(hidden(q, k) * vector(u, h, d, q.dtype), 2)
    return e


@triton.jit
def query_slope(scale, u, de, q, k, h, d, NARROW: tl.constexpr):
    """The gradient of the queries, from the gradient `de` of the scores."""
    if u is None:
        dq = product(de, k, NARROW) * scale
    else:
        x = hidden(q, k)
        dq = tl.sum(de[:, :, None] * (1 - x * x) * vector(u, h, d, q.dtype), 1)
    return dq


@triton.jit
def key_slope(scale, u, de, q, k, h, d, NARROW: tl.constexpr):
    """The gradient of the keys, from the gradient `de` of the scores."""
    if u is None:
        dk = product(tl.trans(de), q, NARROW) * scale
    else:
        x = hidden(q, k)
        dk = tl.sum(de[:, :, None] * (1 - x * x) * vector(u, h, d, q.dtype), 0)
    return dk


@triton.jit
def vector_slope(de, q, k):
    """The gradient of u for each query."""
    return tl.sum(de[:, :, None] * hidden(q, k), 1)


@triton.jit
def vector(u, h, d, WIDE: tl.constexpr):
    """u of head h, (1, 1, A)."""
    return load(u, 0, 0, h + tl.arange(0, 1), d, WIDE)[None, :, :]


@triton.jit
def hidden(q, k):
    """tanh(q_i + k_j), (queries, keys, A), computed so that no exponential overflows."""
    x = q[:, None, :] + k[None, :, :]
    small = tl.exp(-2 * tl.abs(x))
    size = (1 - small) / (1 + small)
    return tl.where(x < 0, -size, size)

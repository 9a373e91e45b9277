"""A kernel for the online softmax; `online_softmax` in `online_softmax.py` is the readable form."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2seq.functional.triton.blocks import load, product, rows_of, store
from seq2seq.functional.triton.launch import Sizes
from seq2seq.functional.triton.scores import compare
from seq2seq.functional.triton.tiles import hide, keep, last_key

LOWEST = tl.constexpr(torch.finfo(torch.float32).min)


@triton.jit
def attend_kernel(scale, u, q, k, v, tiles, mask, bias, dropout, out, lse, sizes):
    """Each program computes a block of queries of one head, reading the keys block by block."""
    b, h = tl.program_id(0) // tiles.heads, tl.program_id(0) % tiles.heads
    i = tl.program_id(1) * sizes.Q + tl.arange(0, sizes.Q)
    d, c = tl.arange(0, sizes.D), tl.arange(0, sizes.M)
    key_head = h // (tiles.heads // k.heads)
    value_head = h // (tiles.heads // v.heads)
    queries = load(q, b, h, i, d, sizes.WIDE)
    m = tl.full((sizes.Q,), float("-inf"), sizes.WIDE)
    l = tl.zeros((sizes.Q,), sizes.WIDE)  # noqa: E741 - the name in the paper
    acc = tl.zeros((sizes.Q, sizes.M), sizes.WIDE)
    for start in range(0, last_key(tiles, (tl.program_id(1) + 1) * sizes.Q), sizes.K):
        j = start + tl.arange(0, sizes.K)
        keys = load(k, b, key_head, j, d, sizes.WIDE)
        e = compare(scale, u, queries, keys, h, d, sizes.NARROW)
        e = hide(e, tiles, mask, bias, b, h, i, j)
        m, l, fade, p = soften(e, m, l)  # noqa: E741
        values = load(v, b, value_head, j, c, sizes.WIDE)
        kept = p * keep(tiles, dropout, b, h, i, j, sizes.WIDE)
        acc = acc * fade[:, None] + product(kept, values, sizes.NARROW)
    write_outputs(acc, m, l, out, lse, b, h, i, c)


@triton.jit
def soften(e, m, l):  # noqa: E741
    """One step of the online softmax, from new scores e, highest scores m and sums l.

    Returns: new highest scores, new sums, factor of earlier terms, exponentials of e.
    """
    # A query that has seen no key yet has m = -inf, and -inf minus itself would be NaN.
    m_new = tl.maximum(tl.maximum(m, tl.max(e, 1)), LOWEST)
    fade, p = tl.exp(m - m_new), tl.exp(e - m_new[:, None])
    return m_new, l * fade + tl.sum(p, 1), fade, p


@triton.jit
def write_outputs(acc, m, l, out, lse, b, h, i, c):  # noqa: E741
    """Write the weighted means, and the logarithms of the sums of exponentials."""
    # l is 0 if there was no key, else at least 1: the highest score adds exp(0).
    some = tl.maximum(l, 1)
    store(out, acc / some[:, None], b, h, i, c)
    lse_rows = tl.where(l > 0, m + tl.log(some), float("-inf"))
    store(lse, lse_rows[:, None], b, h, i, tl.arange(0, 1))


def attend_blocks(
    scale: float,
    u: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tiles: tuple[Any, ...],
    sizes: Sizes,
) -> tuple[Tensor, Tensor]:
    """Compute out (B, H, T, M) in the type of q, and lse (B, H, T, 1) in the type of sums.

    `tiles` are the kernel's arguments tiles, mask, bias and dropout.
    """
    B, H, T, _ = q.shape
    out = q.new_empty(B, H, T, v.shape[3])
    lse = q.new_empty(B, H, T, 1, dtype=torch.promote_types(q.dtype, torch.float32))
    grid = B * H, triton.cdiv(T, sizes.Q.value)
    given = (rows_of(x) for x in (u, q, k, v))
    attend_kernel[grid](tl.constexpr(scale), *given, *tiles, rows_of(out), rows_of(lse), sizes)
    return out, lse

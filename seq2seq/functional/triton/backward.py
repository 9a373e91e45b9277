"""Kernels for the gradient of attention; `gradient` in `online_softmax.py` is the readable form.

The weights are recomputed, p_ij = exp(e_ij - lse_i). Each program writes its own part of a result,
and reads all tiles that add to it in a fixed order, so that sums are reproducible.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2seq.functional.flash import FlashSlopes
from seq2seq.functional.online_softmax import Outputs
from seq2seq.functional.triton.blocks import load, product, rows_of, store
from seq2seq.functional.triton.launch import Sizes
from seq2seq.functional.triton.scores import compare, key_slope, query_slope, vector_slope
from seq2seq.functional.triton.tiles import first_query, hide, keep, last_key


@triton.jit
def queries_kernel(scale, u, q, k, v, lse, delta, dout, tiles, mask, bias, dropout, dq, du, sizes):
    """Each program computes the gradient of a block of queries of a head, and adds to that of u."""
    b, h = tl.program_id(0) // tiles.heads, tl.program_id(0) % tiles.heads
    block, one = tl.program_id(1), tl.arange(0, 1)
    i = block * sizes.Q + tl.arange(0, sizes.Q)
    d, c = tl.arange(0, sizes.D), tl.arange(0, sizes.M)
    queries = load(q, b, h, i, d, sizes.WIDE)
    given = load_outputs(lse, delta, dout, b, h, i, c, sizes)
    dq_block = tl.zeros((sizes.Q, sizes.D), sizes.WIDE)
    du_block = tl.zeros((sizes.Q, sizes.D), sizes.WIDE)
    for start in range(0, last_key(tiles, (block + 1) * sizes.Q), sizes.K):
        j = start + tl.arange(0, sizes.K)
        keys = load(k, b, h // (tiles.heads // k.heads), j, d, sizes.WIDE)
        values = load(v, b, h // (tiles.heads // v.heads), j, c, sizes.WIDE)
        e = compare(scale, u, queries, keys, h, d, sizes.NARROW)
        e = hide(e, tiles, mask, bias, b, h, i, j)
        _, de = slopes(e, values, given, tiles, dropout, b, h, i, j, sizes)
        dq_block += query_slope(scale, u, de, queries, keys, h, d, sizes.NARROW)
        if du is not None:
            du_block += vector_slope(de, queries, keys)
    store(dq, dq_block, b, h, i, d)
    if du is not None:
        store(du, tl.sum(du_block, 0)[None, :], b, h, block + one, d)


@triton.jit
def keys_kernel(scale, u, q, k, v, lse, delta, dout, tiles, mask, bias, dropout, dk, dv, sizes):
    """Each program computes the gradients of a block of keys and values of a group of heads."""
    b, g = tl.program_id(0) // v.heads, tl.program_id(0) % v.heads
    first = tl.program_id(1) * sizes.K
    j = first + tl.arange(0, sizes.K)
    d, c = tl.arange(0, sizes.D), tl.arange(0, sizes.M)
    values = load(v, b, g, j, c, sizes.WIDE)
    dk_block = tl.zeros((sizes.K, sizes.D), sizes.WIDE)
    dv_block = tl.zeros((sizes.K, sizes.M), sizes.WIDE)
    group = tiles.heads // v.heads
    for h in range(g * group, (g + 1) * group):
        keys = load(k, b, h // (tiles.heads // k.heads), j, d, sizes.WIDE)
        for start in range(first_query(tiles, first, sizes.Q), tiles.T, sizes.Q):
            i = start + tl.arange(0, sizes.Q)
            queries = load(q, b, h, i, d, sizes.WIDE)
            given = load_outputs(lse, delta, dout, b, h, i, c, sizes)
            e = compare(scale, u, queries, keys, h, d, sizes.NARROW)
            e = hide(e, tiles, mask, bias, b, h, i, j)
            p, de = slopes(e, values, given, tiles, dropout, b, h, i, j, sizes)
            dv_block += product(tl.trans(p), given[2], sizes.NARROW)
            dk_block += key_slope(scale, u, de, queries, keys, h, d, sizes.NARROW)
        if u is not None:  # each query head has its own keys
            store(dk, dk_block, b, h, j, d)
            dk_block = tl.zeros((sizes.K, sizes.D), sizes.WIDE)
    if u is None:
        store(dk, dk_block, b, g, j, d)
    store(dv, dv_block, b, g, j, c)


@triton.jit
def bias_kernel(
    scale, u, q, k, v, lse, delta, dout, tiles, mask, bias, dropout, dbias, sentences, sizes
):
    """Each program computes the gradient of a block of the bias: the sum over all sentences, heads,
    queries and keys to which that block is added.
    """
    d, c = tl.arange(0, sizes.D), tl.arange(0, sizes.M)
    b0, h0 = tl.program_id(0) // dbias.heads, tl.program_id(0) % dbias.heads
    i0, j0 = tl.program_id(1) * sizes.Q, tl.program_id(2) * sizes.K
    i_end = tl.where(dbias.rows == 1, tiles.T, i0 + sizes.Q)
    j_end = tl.where(dbias.width == 1, tiles.S, j0 + sizes.K)
    group = tiles.heads // dbias.heads
    block = tl.zeros((sizes.Q, sizes.K), sizes.WIDE)
    for b in range(b0 * sentences, (b0 + 1) * sentences):
        for h in range(h0 * group, (h0 + 1) * group):
            for i_start in range(i0, i_end, sizes.Q):
                i = i_start + tl.arange(0, sizes.Q)
                queries = load(q, b, h, i, d, sizes.WIDE)
                given = load_outputs(lse, delta, dout, b, h, i, c, sizes)
                last = tl.minimum(j_end, last_key(tiles, i_start + sizes.Q))
                for j_start in range(j0, last, sizes.K):
                    j = j_start + tl.arange(0, sizes.K)
                    keys = load(k, b, h // (tiles.heads // k.heads), j, d, sizes.WIDE)
                    values = load(v, b, h // (tiles.heads // v.heads), j, c, sizes.WIDE)
                    e = compare(scale, u, queries, keys, h, d, sizes.NARROW)
                    e = hide(e, tiles, mask, bias, b, h, i, j)
                    _, de = slopes(e, values, given, tiles, dropout, b, h, i, j, sizes)
                    block += de
    # Along an axis of length 1, sum up: only the first element is stored.
    block = tl.where(dbias.rows == 1, tl.sum(block, 0)[None, :], block)
    block = tl.where(dbias.width == 1, tl.sum(block, 1)[:, None], block)
    store(dbias, block, b0, h0, i0 + tl.arange(0, sizes.Q), j0 + tl.arange(0, sizes.K))


@triton.jit
def load_outputs(lse, delta, dout, b, h, i, c, sizes):
    """Load lse, delta and dout of some queries.

    A query without any key gets lse = inf, so that p = exp(-inf - inf) = 0, not exp(-inf + inf).
    """
    one = tl.arange(0, 1)
    sums = load(lse, b, h, i, one, sizes.WIDE)
    sums = tl.where(sums == float("-inf"), float("inf"), sums)
    means = load(delta, b, h, i, one, sizes.WIDE)
    return sums, means, load(dout, b, h, i, c, sizes.WIDE)


@triton.jit
def slopes(e, values, given, tiles, dropout, b, h, i, j, sizes):
    """The weights of a tile with scores e after dropout, and the gradient of the scores."""
    lse, delta, dout = given
    p = tl.exp(e - lse)
    factors = keep(tiles, dropout, b, h, i, j, sizes.WIDE)
    dp = product(dout, tl.trans(values), sizes.NARROW) * factors
    return p * factors, p * (dp - delta)


def differentiate_blocks(
    scale: float,
    u: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    outputs: Outputs,
    tiles: tuple[Any, ...],
    bias: Tensor | None,
    sizes: Sizes,
) -> FlashSlopes:
    """Compute all gradients. `bias` is passed only if it needs a gradient.

    `tiles` are the kernels' arguments tiles, mask, bias and dropout.
    """
    out, lse, dout = outputs
    B, H, T, D = q.shape
    delta = (dout.to(lse.dtype) * out).sum(-1, keepdim=True)  # (B, H, T, 1)
    given = tl.constexpr(scale), *map(rows_of, (u, q, k, v, lse, delta, dout)), *tiles
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    blocks, key_blocks = triton.cdiv(T, sizes.Q.value), triton.cdiv(k.shape[2], sizes.K.value)
    du = None if u is None else lse.new_empty(B, H, blocks, D)
    queries_kernel[B * H, blocks](*given, rows_of(dq), rows_of(du), sizes)
    keys_kernel[B * v.shape[1], key_blocks](*given, rows_of(dk), rows_of(dv), sizes)
    dbias = None
    if bias is not None:
        dbias = torch.empty_like(bias, dtype=lse.dtype)
        N, heads, rows, width = bias.shape
        grid = N * heads, triton.cdiv(rows, sizes.Q.value), triton.cdiv(width, sizes.K.value)
        bias_kernel[grid](*given, rows_of(dbias), B // N, sizes)
    return FlashSlopes(dq, dk, dv, None if du is None else du.sum((0, 2)), dbias)

"""Flash attention: the softmax of scores that are never all in memory, in plain PyTorch.

`fused_attention` computes the same in one torch kernel, faster. This version also avoids T x S
memory where that kernel cannot: with dropout and with a bias that learns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast
from seq2seq.functional.tiles import Tiles, Tiling, products, take_tile

# The fastest sizes measured on a CPU, for few heads and for many.
BLOCK_Q, BLOCK_K = 128, 512


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> Tensor:
    """softmax(scale q k^T + bias) v, one tile of scores at a time, forward and backward.

    What is kept for the gradient grows with T + S, not with T S. Sums run in float32 at least.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.   v: (B, G, S, M).
        scale: factor of the scores; 1 / sqrt(D) for scaled dot products.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        bias: added to the scores, broadcastable to (B, H, T, S); it may need a gradient.
        causal: the queries are the last T of S positions, and each reads itself and what is before
            it.
        dropout: probability of dropping a weight; pass 0 outside training.
        block_q: queries of a tile.   block_k: keys of a tile.

    Returns: (B, H, T, M), zeros for a query that may attend to nothing. It can be differentiated
        once.
    Raises: ValueError if shapes disagree, G does not divide H, or a block is empty.
    Source: Dao et al. 2022, arXiv:2205.14135; Milakov, Gimelshein 2018, arXiv:1805.02867.
    """
    sizes = check("B H T D, B G S D, B G S M", q=q, k=k, v=v)
    if block_q < 1 or block_k < 1:
        raise ValueError(f"tiles of {block_q} queries and {block_k} keys: both must be at least 1")
    shape = sizes["B"], sizes["H"], sizes["T"], sizes["S"]
    mask, bias = with_four_axes("mask", mask, shape), with_four_axes("bias", bias, shape)
    # Drawn from torch's generator, so that its seed reproduces everything.
    seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
    # No tile is larger than all scores.
    block_q, block_k = min(block_q, max(1, shape[2])), min(block_k, max(1, shape[3]))
    tiling = Tiling(scale, causal, dropout, seed, block_q, block_k)
    # Under autocast an RNN's states are wider than its projections.
    dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
    apply: Callable[..., Tensor] = Flash.apply
    return apply(q.to(dtype), k.to(dtype), v.to(dtype), bias, mask, tiling)


class Flash(torch.autograd.Function):
    """`online_softmax` and its gradient. It saves its inputs, out and lse only."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        tiling: Tiling,
    ) -> Tensor:
        tiles = Tiles((*q.shape[:3], k.shape[2]), tiling, bias, mask)
        G = k.shape[1]
        with torch.autocast(q.device.type, enabled=False):
            out, lse = online_softmax(fold(q, G), fold(k, G)[:, 0], fold(v, G)[:, 0], tiles)
        out = out.view(*q.shape[:3], v.shape[3]).to(q.dtype)
        ctx.save_for_backward(q, k, v, bias, mask, out, lse.view(*q.shape[:3], 1))
        ctx.tiling = tiling
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "flash attention can be differentiated only once. For second derivatives take "
                "attn.kernel=explicit"
            )
        q, k, v, bias, mask, out, lse = ctx.saved_tensors
        tiles = Tiles((*q.shape[:3], k.shape[2]), ctx.tiling, bias, mask)
        dbias = torch.zeros_like(bias, dtype=lse.dtype) if ctx.needs_input_grad[3] else None
        G = k.shape[1]
        with torch.autocast(q.device.type, enabled=False):
            outputs = Outputs(*(fold(x, G) for x in (out, lse, dout)))
            dq, dk, dv = gradient(
                fold(q, G), fold(k, G)[:, 0], fold(v, G)[:, 0], outputs, tiles, dbias
            )
        grads = (dx.view(x.shape).to(x.dtype) for dx, x in ((dq, q), (dk, k), (dv, v)))
        return *grads, None if dbias is None else dbias.to(bias.dtype), None, None


class Outputs(NamedTuple):
    """Of the forward pass, as the gradient needs them: each (B * G, H / G, T, ...)."""

    out: Tensor
    lse: Tensor  # log sum_j exp e_ij, of width 1
    dout: Tensor  # the gradient of the loss with respect to `out`


def online_softmax(q: Tensor, k: Tensor, v: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
    """Softmax attention that reads every score once, in any order.

    For the keys read so far it keeps their highest score m, l = sum_j exp(e_ij - m) and
    acc = sum_j exp(e_ij - m) v_j. A higher m scales both by exp(m - m_new).

    Args:
        q: (B * G, H / G, T, D).   k: (B * G, S, D).   v: (B * G, S, M).

    Returns: out = acc / l, (B * G, H / G, T, M), and lse = m + log l, -inf for a query without any
        key, (B * G, H / G, T, 1).
    """
    buffer = tiles.new_buffer(q)
    out, lse = q.new_empty(*q.shape[:3], v.shape[2]), q.new_empty(*q.shape[:3], 1)
    for rows in tiles.rows():
        scaled_q = take_rows(q, rows) * tiles.tiling.scale
        m = scaled_q.new_full((*scaled_q.shape[:2], 1), -torch.inf)
        l = torch.zeros_like(m)  # noqa: E741 - the name in the paper
        acc = scaled_q.new_zeros(*scaled_q.shape[:2], v.shape[2])
        for columns in tiles.columns(rows):
            p = tiles.scores(scaled_q, k, rows, columns, buffer)
            # A query that has seen no key yet has m = -inf, and -inf minus itself would be NaN.
            m_new = torch.maximum(m, p.amax(-1, keepdim=True)).clamp_(torch.finfo(m.dtype).min)
            fade = m.sub_(m_new).exp_()
            p.sub_(m_new).exp_()
            l.mul_(fade).add_(p.sum(-1, keepdim=True))
            keep = tiles.keep(p, rows, columns)
            if keep is not None:
                p.mul_(keep)
            acc.mul_(fade).baddbmm_(p, v[:, columns])
            m = m_new
        # l is 0 without any key, and at least 1 with one: its highest score adds exp(0).
        out[:, :, rows] = acc.div_(l.clamp(min=1)).view_as(out[:, :, rows])
        lse[:, :, rows] = m.add_(l.log_()).view_as(lse[:, :, rows])
    return out, lse


def gradient(
    q: Tensor, k: Tensor, v: Tensor, outputs: Outputs, tiles: Tiles, dbias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of `online_softmax`, with the weights recomputed: p_ij = exp(e_ij - lse_i).

        dv_j = sum_i p_ij dout_i,   delta_i = dout_i . out_i
        de_ij = p_ij (dout_i . v_j - delta_i),   dq_i = scale sum_j de_ij k_j

    Args:
        q: (B * G, H / G, T, D).   k: (B * G, S, D).   v: (B * G, S, M).
        dbias: zeros in the shape of the bias, to which its gradient is added; None = it needs none.

    Returns: the gradients of q, k and v.
    """
    buffer, other_buffer = tiles.new_buffer(q), tiles.new_buffer(q)
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows in tiles.rows():
        scaled_q = take_rows(q, rows) * tiles.tiling.scale
        out, lse, dout = (take_rows(x, rows) for x in outputs)
        delta = (dout * out).sum(-1, keepdim=True)
        # A query without any key has p = exp(-inf - inf) = 0, not exp(-inf + inf).
        lse = lse.masked_fill(lse == -torch.inf, torch.inf)
        dq_rows = torch.zeros_like(scaled_q)
        for columns in tiles.columns(rows):
            p = tiles.scores(scaled_q, k, rows, columns, buffer).sub_(lse).exp_()
            de = products(dout, v, columns, other_buffer)
            keep = tiles.keep(p, rows, columns)
            if keep is not None:
                de.mul_(keep)
            kept = p if keep is None else keep.mul_(p)
            dv[:, columns].baddbmm_(kept.transpose(1, 2), dout)
            de.sub_(delta).mul_(p)
            dk[:, columns].baddbmm_(de.transpose(1, 2), scaled_q)
            dq_rows.baddbmm_(de, k[:, columns])
            if dbias is not None:
                dtile = take_tile(dbias, rows, columns)
                dtile += tiles.by_heads(de, rows).sum_to_size(dtile.shape)
        dq[:, :, rows] = dq_rows.mul_(tiles.tiling.scale).view_as(dq[:, :, rows])
    return dq, dk, dv


def fold(x: Tensor, groups: int) -> Tensor:
    """(B, H, T, W) -> (B * G, H / G, T, W), float32 at least: query heads beside their key head."""
    return upcast(x).reshape(x.shape[0] * groups, x.shape[1] // groups, *x.shape[2:])


def take_rows(x: Tensor, rows: slice) -> Tensor:
    """A block of queries, (B * G, H / G, T, W) -> (B * G, H / G * rows, W): the query heads of a
    group become further queries of its key head.
    """
    return x[:, :, rows].flatten(1, 2)


def with_four_axes(name: str, x: Tensor | None, shape: tuple[int, int, int, int]) -> Tensor | None:
    """A bias or mask with four axes. Raises: ValueError if it does not broadcast to `shape`."""
    if x is None:
        return None
    if x.dim() > 4 or any(
        size not in (1, whole)
        for size, whole in zip(reversed(x.shape), reversed(shape), strict=False)
    ):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}; it cannot be broadcast to (B, H, T, S) = {shape}"
        )
    return x.reshape((1,) * (4 - x.dim()) + x.shape)

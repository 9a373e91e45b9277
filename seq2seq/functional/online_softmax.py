"""The online softmax: attention that reads every score once, tile by tile, and its gradient.

The score functions are in `tile_scores`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.softmax import upcast
from seq2seq.functional.tile_scores import TilePair, TileScore
from seq2seq.functional.tiles import Tiles, take_tile


class Inputs(NamedTuple):
    """Queries, keys and values of the N key heads of all B sentences together."""

    score: TileScore
    q: Tensor  # (N, n, T, D): the n query heads that share a key head are next to each other
    k: Tensor  # (N, S, D)
    v: Tensor  # (B * G, S, M); fewer heads than k if each query head has its own keys


class Outputs(NamedTuple):
    """Results of the forward pass that the gradient needs, each (B * G, H / G, T, ...)."""

    out: Tensor
    lse: Tensor  # log sum_j exp e_ij, of width 1
    dout: Tensor  # the gradient of the loss with respect to `out`


def online_softmax(inputs: Inputs, tiles: Tiles) -> tuple[Tensor, Tensor]:
    """Softmax attention that reads every score once, in any order.

    It keeps the highest score m of the keys read so far, and the sums l = sum_j exp(e_ij - m) and
    acc = sum_j exp(e_ij - m) v_j. When m rises, both sums are multiplied by exp(m - m_new).

    Returns: out = acc / l, (B * G, H / G, T, M), and lse = m + log l, -inf for a query without any
        key, (B * G, H / G, T, 1).
    """
    score, q, k, v = inputs
    buffer = tiles.new_buffer(q, score.width)
    N, H, T = len(v), q.shape[0] * q.shape[1] // max(1, len(v)), q.shape[2]
    out, lse = q.new_empty(N, H, T, v.shape[2]), q.new_empty(N, H, T, 1)
    for rows in tiles.rows():
        queries = take_rows(q, rows)
        m = q.new_full((N, H * (rows.stop - rows.start), 1), -torch.inf)
        l = torch.zeros_like(m)  # noqa: E741 - the name in the paper
        acc = q.new_zeros(*m.shape[:2], v.shape[2])
        for columns in tiles.columns(rows):
            e = score.compare(TilePair(queries, k[:, columns]), buffer)
            p = tiles.hide(e, rows, columns).view(*m.shape[:2], -1)
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
        # l is 0 if there was no key, else at least 1: the highest score adds exp(0).
        out[:, :, rows] = acc.div_(l.clamp(min=1)).view_as(out[:, :, rows])
        lse[:, :, rows] = m.add_(l.log_()).view_as(lse[:, :, rows])
    return out, lse


def gradient(
    inputs: Inputs, outputs: Outputs, tiles: Tiles, dbias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of `online_softmax`, with the weights recomputed: p_ij = exp(e_ij - lse_i).

        dv_j = sum_i p_ij dout_i,   delta_i = dout_i . out_i
        de_ij = p_ij (dout_i . v_j - delta_i)

    Args:
        dbias: zeros in the shape of the bias, to which its gradient is added; None if the bias
            needs no gradient.

    Returns: the gradients of q, k and v. The score keeps the gradients of its own parameters.
    """
    score, q, k, v = inputs
    buffer, other_buffer = tiles.new_buffer(q, score.width), tiles.new_buffer(q, 1)
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows in tiles.rows():
        queries = take_rows(q, rows)
        out, lse, dout = (take_rows(x, rows) for x in outputs)
        delta = (dout * out).sum(-1, keepdim=True)
        # A query without any key has p = exp(-inf - inf) = 0, not exp(-inf + inf).
        lse = lse.masked_fill(lse == -torch.inf, torch.inf)
        dq_rows = torch.zeros_like(queries)
        for columns in tiles.columns(rows):
            pair = TilePair(queries, k[:, columns])
            e = score.compare(pair, buffer)
            p = tiles.hide(e, rows, columns).view(*lse.shape[:2], -1).sub_(lse).exp_()
            de = other_buffer[: p.numel()].view_as(p)
            torch.bmm(dout, v[:, columns].transpose(1, 2), out=de)
            keep = tiles.keep(p, rows, columns)
            if keep is not None:
                de.mul_(keep)
            kept = p if keep is None else keep.mul_(p)
            dv[:, columns].baddbmm_(kept.transpose(1, 2), dout)
            de.sub_(delta).mul_(p)
            score.add_gradients(de.view_as(e), pair, buffer, TilePair(dq_rows, dk[:, columns]))
            if dbias is not None:
                dtile = take_tile(dbias, rows, columns)
                dtile += tiles.by_heads(de, rows).sum_to_size(dtile.shape)
        dq[:, :, rows] = dq_rows.view_as(dq[:, :, rows])
    return dq, dk, dv


def fold(x: Tensor, groups: int) -> Tensor:
    """Group heads by their key head: (B, H, T, W) -> (B * G, H / G, T, W), float32 at least."""
    return upcast(x).reshape(x.shape[0] * groups, x.shape[1] // groups, *x.shape[2:])


def take_rows(x: Tensor, rows: slice) -> Tensor:
    """Take a block of queries: (B * G, H / G, T, W) -> (B * G, H / G * rows, W).

    The query heads of a group become more queries of its key head.
    """
    return x[:, :, rows].flatten(1, 2)

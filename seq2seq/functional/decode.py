"""Attention of a few queries without gradients: what every step of decoding does."""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import intersect_masks, upcast

# For more queries the fused kernel, which never holds all scores, is faster.
FEW = 16


def use_decode_attention(q: Tensor) -> bool:
    """True if `decode_attention` is the path for these queries (B, H, T, D)."""
    return not torch.is_grad_enabled() and q.shape[2] <= FEW


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float = 1.0,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """softmax(scale q k^T + bias) v as two products, one for all queries of a key head.

    Nothing is repeated for the query heads of a group, and head-major keys and values are read in
    place. Starting the fused kernel costs more than computing one query.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.   v: (B, G, S, M).
        scale: factor of the scores.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (B, H, T, S).

    Returns: (B, H, T, M), zeros for a query that may attend to nothing.
    Raises: ValueError if shapes disagree, or G does not divide H.
    """
    sizes = check("B H T D, B G S D, B G S M", q=q, k=k, v=v)
    B, H, T, G, S = (sizes[letter] for letter in "BHTGS")
    # -> (B G, H / G * T, D): the query heads of a group are further queries of its key head
    grouped = (q * scale).reshape(B * G, H // G * T, -1)
    keys, values = k.reshape(B * G, S, -1), v.reshape(B * G, S, -1)
    scores = upcast(torch.bmm(grouped, keys.transpose(1, 2))).view(B, H, T, S)
    if bias is not None:
        scores += bias.to(scores.dtype)
    if mask is not None:
        # Adding is twice as fast as filling, which repeats the mask for each head.
        hidden = scores.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(scores.dtype).min)
        scores += hidden
    weights = scores.softmax(-1)
    if mask is not None:
        weights *= mask  # for queries without any key
    out = torch.bmm(weights.view(B * G, -1, S).to(values.dtype), values)
    return out.view(B, H, T, -1)


def gather_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slots: Tensor,
    lengths: Tensor,
    *,
    scale: float = 1.0,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """`decode_attention` over keys and values in pages, which are copied row by row.

    The readable form of the kernel `paged_attention` of `triton/paged.py`, with its arguments:
    `k` (G, slots, D) and `v` (G, slots, M) of a pool, and `slots` (N, S) of the tokens of each row,
    of which the first `lengths` (N,) exist.
    """
    inside = torch.arange(slots.shape[1], device=slots.device) < lengths[:, None]
    read = torch.where(inside, slots, slots[:, :1])  # the others may hold anything
    mask = intersect_masks(mask, inside[:, None, None])
    of_rows = (x[:, read].transpose(0, 1) for x in (k, v))  # (N, G, S, width)
    return decode_attention(q, *of_rows, scale=scale, mask=mask, bias=bias)

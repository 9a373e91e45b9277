"""Attention of a few queries without gradients, for the steps of decoding."""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import intersect_masks, upcast

# With more queries than this the fused kernel, which never holds all scores, is faster.
FEW = 16


def use_decode_attention(q: Tensor) -> bool:
    """True if these queries (B, H, T, D) should go through `decode_attention`."""
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
    """softmax(scale q k^T + bias) v by two matrix products, each for all queries of a key head.

    Keys and values are not repeated for the query heads of a group, and are read in place if they
    are head-major. For a single query this is faster than starting the fused kernel.

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
    # -> (B G, H / G * T, D): the query heads of a group count as more queries of its key head
    grouped = (q * scale).reshape(B * G, H // G * T, -1)
    keys, values = k.reshape(B * G, S, -1), v.reshape(B * G, S, -1)
    scores = upcast(torch.bmm(grouped, keys.transpose(1, 2))).view(B, H, T, S)
    if bias is not None:
        scores += bias.to(scores.dtype)
    if mask is not None:
        # Adding a term is twice as fast as `masked_fill_`, which repeats the mask for each head.
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
    """`decode_attention` over keys and values that are stored in pages and copied for each row.

    This is the readable form of the kernel `paged_attention` in `triton/paged.py` and has the same
    arguments: `k` (G, slots, D) and `v` (G, slots, M) are the pool, and `slots` (N, S) are the
    places of each row's tokens in it, of which the first `lengths` (N,) are used.
    """
    inside = torch.arange(slots.shape[1], device=slots.device) < lengths[:, None]
    read = torch.where(inside, slots, slots[:, :1])  # entries after these are undefined
    mask = intersect_masks(mask, inside[:, None, None])
    of_rows = (x[:, read].transpose(0, 1) for x in (k, v))  # (N, G, S, width)
    return decode_attention(q, *of_rows, scale=scale, mask=mask, bias=bias)

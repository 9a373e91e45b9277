"""Softmax attention with explicit weights: the reference that every faster path is tested against.

Also the conversion to float32 that sums need, and causal masks.
"""

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.shapes import check


def upcast(x: Tensor) -> Tensor:
    """x in float32, or unchanged in float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def masked_softmax(
    scores: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Softmax over the last axis with weight 0 for masked keys, also if all keys are masked.

    The sum is in float32 at least. If all keys of a query are masked, its gradient is 0, not NaN.

    Args:
        scores: (..., T, S).
        mask: bool, broadcastable to (..., T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (..., T, S).

    Returns: (..., T, S) in the type of `scores`.
    """
    wide = upcast(scores)
    if bias is not None:
        wide = wide + bias.to(wide.dtype)
    if mask is None:
        return wide.softmax(-1).to(scores.dtype)
    # Fill with the lowest finite number instead of -inf: a row of -inf has no softmax, and its
    # gradient would be NaN even if the result were replaced. The product with the mask makes such a
    # row zero.
    wide = wide.masked_fill(~mask, torch.finfo(wide.dtype).min)
    return (wide.softmax(-1) * mask).to(scores.dtype)


def attend(weights: Tensor, v: Tensor) -> Tensor:
    """Weighted sums of values: (B, H, T, S) and (B, G, S, M) -> (B, H, T, M), in the type of v.

    Weights may be of a wider type than v.
    """
    B, H, T, S = weights.shape
    G = v.shape[1]
    # -> (B, G, H / G * T, S): the query heads of a group are further queries of its key head
    return (weights.to(v.dtype).reshape(B, G, H // G * T, S) @ v).view(B, H, T, -1)


def explicit_attention(
    scores: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attention from scores e: a_ij = softmax_j(e_ij), out_i = sum_j a_ij v_j.

    Args:
        scores: e, (B, H, T, S), from any function of `functional.scores`.
        v: (B, G, S, M), G divides H.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (B, H, T, S).
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: out (B, H, T, M), and the weights before dropout (B, H, T, S).
    Raises: ValueError if shapes disagree or G does not divide H.
    Source: Bahdanau et al. 2015, arXiv:1409.0473; Vaswani et al. 2017, arXiv:1706.03762.
    """
    check("B H T S, B G S M", scores=scores, v=v)
    weights = masked_softmax(scores, mask, bias)
    return attend(drop(weights, dropout), v), weights


def intersect_masks(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """The intersection of two masks; None hides nothing."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def causal_mask(
    queries: int, keys: int, start: int = 0, *, device: torch.device | None = None
) -> Tensor:
    """Mask by which query i, at position start + i, may read the keys 0 ... start + i.

    Args:
        queries: number of queries T.
        keys: number of keys S.
        start: position of the first query.

    Returns: (T, S).
    """
    query = torch.arange(queries, device=device)[:, None]
    key = torch.arange(keys, device=device)
    return key <= query + start


def past_mask(positions: Tensor, queries: int, keys: int) -> Tensor:
    """Mask by which the last T of S tokens may read themselves and all earlier tokens.

    Args:
        positions: positions of the queries. (T,): all rows have the same length, and the last query
            is at the position of the last key. (N, T): key j of a row is at position j, and a query
            may read the keys up to its own position.
        queries: number of queries T.
        keys: number of keys S.

    Returns: (T, S), or (N, 1, T, S).
    """
    if positions.dim() == 1:
        return causal_mask(queries, keys, keys - queries, device=positions.device)
    return torch.arange(keys, device=positions.device) <= positions[:, None, :, None]

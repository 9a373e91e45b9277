"""Softmax attention, written out: the reference that every faster path is tested against; with the
float32 that it computes in and the causal masks that it obeys.
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
    """Softmax over the last axis that gives a masked key, and every key of a query that sees none,
    exactly 0.

    The sum runs in float32 at least; a row that is masked everywhere has gradient 0, not NaN.

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
    # The lowest finite number instead of -inf: a row of -inf has no softmax, and its gradient is
    # NaN even where the result is replaced. The product with the mask then makes such a row zero.
    wide = wide.masked_fill(~mask, torch.finfo(wide.dtype).min)
    return (wide.softmax(-1) * mask).to(scores.dtype)


def attend(weights: Tensor, v: Tensor) -> Tensor:
    """The weighted sums of values: (B, H, T, S) and (B, G, S, M) -> (B, H, T, M), in the type of v.

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
    """Attention from given scores: a_ij = softmax_j(e_ij), out_i = sum_j a_ij v_j.

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
    """The intersection of two masks; None lets everything through."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def causal_mask(
    queries: int, keys: int, start: int = 0, *, device: torch.device | None = None
) -> Tensor:
    """Query i, standing at position start + i, may read keys 0 ... start + i, itself included.

    Args:
        queries: T.
        keys: S.
        start: position of the first query.

    Returns: (T, S).
    """
    query = torch.arange(queries, device=device)[:, None]
    key = torch.arange(keys, device=device)
    return key <= query + start


def past_mask(positions: Tensor, queries: int, keys: int) -> Tensor:
    """The last T of S tokens may read themselves and what stands before them.

    Args:
        positions: positions of the queries. (T,): all rows have the same length, and the last
            query stands at the last key. (N, T): key j of a row is at position j; later keys do
            not exist yet.
        queries: T.
        keys: S.

    Returns: (T, S), or (N, 1, T, S).
    """
    if positions.dim() == 1:
        return causal_mask(queries, keys, keys - queries, device=positions.device)
    return torch.arange(keys, device=positions.device) <= positions[:, None, :, None]

"""Cases of attention with a softmax, and the formula written out."""

import torch
from torch import Tensor

from seq2seq.functional import causal_mask, explicit_attention


def visible(kind: str, shape: tuple[int, int, int, int]) -> Tensor | None:
    """Masks: of padding, of anything for each head, and with rows that may attend to nothing."""
    B, _, queries, keys = shape
    if kind == "none":
        return None
    if kind == "padding":
        lengths = torch.tensor([keys // (b + 1) + (b > 0) for b in range(B)])
        return (torch.arange(keys) < lengths[:, None])[:, None, None]
    mask = torch.rand(shape) < 0.6
    if kind == "empty":
        mask[0, :, queries // 2] = False
        mask[1] = False
    return mask


def with_past(mask: Tensor | None, causal: bool, T: int, S: int) -> Tensor | None:
    """The mask of queries that, if causal, are the last T of S positions."""
    if not causal:
        return mask
    past = causal_mask(T, S, S - T)
    return past if mask is None else mask & past


def written_out(
    scores: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
) -> Tensor:
    """The reference, which holds all T x S weights."""
    mask = with_past(mask, causal, *scores.shape[2:])
    return explicit_attention(scores, v, mask=mask, bias=bias)[0]

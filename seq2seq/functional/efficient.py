"""Efficient attention: one softmax over the channels of each query, and one over the positions of
the keys.
"""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import masked_softmax, upcast


def position_softmax(k: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the positions for each of the D channels of the keys; 0 where masked.

    Args:
        k: (B, H, S, D).
        mask: (B, S), True = real token.

    Returns: (B, H, D, S), float32 at least.
    """
    return masked_softmax(
        upcast(k).transpose(-2, -1), None if mask is None else mask[:, None, None]
    )


def efficient_context(k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """softmax over positions(K)^T V: the weighted mean of the values for each channel of the keys.

    Args:
        k: (B, H, S, D).   v: (B, H, S, M).
        mask: (B, S), True = real token.

    Returns: (B, H, D, M), float32 at least; zeros where there is no key.
    """
    check("B H S D, B H S M", k=k, v=v)
    with torch.autocast(v.device.type, enabled=False):
        return position_softmax(k, mask) @ upcast(v)


def efficient_attention(q: Tensor, context: Tensor) -> Tensor:
    """out_i = softmax over channels(q_i)^T context.

    Args:
        q: (B, H, T, D).
        context: result of `efficient_context`, (B, H, D, M).

    Returns: (B, H, T, M), float32 at least.
    Source: Shen et al. 2018, arXiv:1812.01243.
    """
    check("B H T D, B H D M", q=q, context=context)
    with torch.autocast(q.device.type, enabled=False):
        return upcast(q).softmax(-1) @ context


def efficient_weights(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """The full weights a_ij = sum over channels of the product of both softmaxes.

    They are meant for display; `efficient_attention` does not need them.

    Args:
        q: (B, H, T, D).   k: (B, H, S, D).
        mask: (B, S), True = real token.

    Returns: (B, H, T, S), float32 at least; rows sum to one, or to zero where there is no key.
    """
    check("B H T D, B H S D", q=q, k=k)
    with torch.autocast(q.device.type, enabled=False):
        return upcast(q).softmax(-1) @ position_softmax(k, mask)

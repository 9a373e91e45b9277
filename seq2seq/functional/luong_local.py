"""Luong's local attention: each query reads a window of the source around a centre."""

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.positions import distances
from seq2seq.functional.scores import project_per_head
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import attend, intersect_masks, masked_softmax, upcast


def predict_centres(q: Tensor, wp: Tensor, vp: Tensor, lengths: Tensor) -> Tensor:
    """The position in the source that each query predicts: p = S sigmoid(vp . tanh(Wp q)).

    It is computed in float32 at least, also under autocast: beyond 256, bfloat16 cannot tell
    neighbouring positions apart.

    Args:
        q: (B, H, T, D).   wp: (H, A, D).   vp: (H, A).
        lengths: number of real keys S of each row, (B,).

    Returns: (B, H, T), each in [0, S].
    Source: Luong et al. 2015, arXiv:1508.04025.
    """
    check("B H T D, H A D, H A, B", q=q, wp=wp, vp=vp, lengths=lengths)
    with torch.autocast(q.device.type, enabled=False):
        hidden = project_per_head(upcast(q), upcast(wp)).tanh()
        share = torch.einsum("bhta,ha->bht", hidden, upcast(vp)).sigmoid()
    return lengths[:, None, None] * share


def local_attention(
    scores: Tensor,
    v: Tensor,
    centres: Tensor,
    radius: int,
    *,
    gaussian: bool = False,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attention to the keys s in [p - radius, p + radius] around the centre p of each query.

        a_s = softmax of e_s over the visible keys of the window      (local-m)
        a_s = that times exp(-(s - p)^2 / (2 (radius / 2)^2))         (local-p: `gaussian`)

    The product is not normalised again. As in the paper, the softmax of both kinds runs over the
    window only. The window is a mask, which gives p no gradient; the Gaussian does.

    Args:
        scores: e, (B, H, T, S), from any function of `functional.scores`.
        v: (B, G, S, M), G divides H.
        centres: p, broadcastable to (B, H, T); the keys are at positions 0 ... S - 1.
        radius: D in the paper, at least 1.
        gaussian: True to multiply by the Gaussian, which is 1 at p and exp(-2) at the window's
            ends.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: out (B, H, T, M), and the weights before dropout (B, H, T, S); zeros for a query whose
        window has no visible key.
    Raises: ValueError if shapes disagree or G does not divide H.
    Source: Luong et al. 2015, arXiv:1508.04025.
    """
    distance = distances(centres, scores.shape[-1])
    seen = intersect_masks(mask, distance.abs() <= radius)
    check("B H T S, B G S M", scores=scores, v=v)
    weights = masked_softmax(upcast(scores), seen)
    if gaussian:
        weights = weights * torch.exp(-2 * (upcast(distance) / radius).square())
    weights = weights.to(scores.dtype)
    return attend(drop(weights, dropout), v), weights

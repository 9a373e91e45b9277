"""Performer: linear attention whose random features estimate softmax attention."""

from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq.attention.base import Cost, Place
from seq2seq.attention.linear import FeatureAttention
from seq2seq.base.registry import check_range
from seq2seq.functional.features import (
    FeatureMap,
    default_features,
    favor_map,
    orthogonal_features,
    relu_map,
)


class Performer(FeatureAttention):
    """Scaled dot-product attention estimated by random features. Its cost grows with the length,
    not with its square.

        out = concat_h( phi(q)^T U / phi(q)^T z ) Wo
        U = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j)
        phi(x)_m = exp(w_m . x' - |x'|^2 / 2) / sqrt(F),   x' = x / D^(1/4)

    The expectation of phi(q) . phi(k) over random w is exp(q . k / sqrt(D)). w is drawn once, is
    shared by the heads, saved with the weights and not trained. Rotary positions rotate queries and
    keys before phi.

    The error of the estimate grows with exp(|q' + k'|^2). Queries and keys therefore start at half
    the usual size, and learn half as fast.

    Args:
        place: surroundings of the attention.
        num_heads: H; divides the width.
        num_features: F; null is D ln D, rounded up to a multiple of D. More features are closer to
            the softmax.
        features: `positive` is the phi above; `relu` is max(0, w_m . x') + 1e-3, another kernel,
            which does not estimate the softmax.
        bias: whether the projections have biases.

    Raises: ConfigError if `num_heads` does not divide the width, or if num_features is below 1.
    Source: Choromanski et al. 2020, arXiv:2009.14794.
    """

    supports = frozenset({"rotate"})
    # The F features are held for only 1024 tokens at a time.
    usual_cost = Cost("(T + S) F D", "(T + S) D", "U (F x D), z (F) and a maximum a head")
    size = 0.5
    w: Tensor  # (F, D)

    def __init__(
        self,
        place: Place,
        *,
        num_features: int | None = None,
        features: Literal["positive", "relu"] = "positive",
        **options: Any,
    ):
        super().__init__(place, **options)
        check_range("attn.num_features", num_features, 1)
        self.features = features
        self.sums_to_one = features == "positive"
        width = place.dim // self.num_heads
        count = num_features or default_features(width)
        self.register_buffer("w", torch.empty(count, width))
        self.w.copy_(orthogonal_features(count, width))

    @property
    def phi(self) -> FeatureMap:
        return favor_map(self.w) if self.features == "positive" else relu_map(self.w)

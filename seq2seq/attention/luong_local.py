"""Luong's local attention: every target word reads a window of the source."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Cost, Place, Role
from seq2seq.attention.memory import TokenMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import xavier
from seq2seq.base.registry import check_range
from seq2seq.functional.luong_local import local_attention, predict_centres


class LocalMonotonic(MultiHead):
    """Attention local-m: target position t reads source positions t - radius to t + radius.

        out = concat_h( softmax_s(e(q_h, k_hs)) v_hs ) Wo,   |s - t| <= radius

    A target position more than `radius` beyond the last source token has an empty window, so that
    its weights and output are zeros.

    Args:
        place: surroundings of the attention, a cross-attention.
        num_heads: H; divides the width.
        radius: number of source tokens to read on each side of the centre (D in the paper).
        score, project, bias, dropout: options of `MultiHead`. The weights are always computed.

    Raises: ConfigError if the radius is below 1, if `num_heads` does not divide the width, or if
        the score does not fit the widths.
    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    roles = frozenset({Role.CROSS})
    role_refusals = {
        Role.ENCODER: "it looks for the place of a word in another sentence",
        Role.DECODER: "it looks for the place of a word in another sentence, and its window "
        "includes future tokens",
    }
    supports = frozenset()
    absent_options = {
        "num_kv_heads": "each head has its own keys and values",
        "kernel": "its weights are always written out",
    }

    def __init__(
        self,
        place: Place,
        *,
        num_heads: int,
        radius: int = 10,
        score: str = "general",
        **options: Any,
    ):
        check_range("attn.radius", radius, 1)
        super().__init__(
            place,
            num_heads=num_heads,
            num_kv_heads=num_heads,
            score=score,
            kernel="explicit",
            **options,
        )
        self.radius = radius

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        return super().cost({"score": "general", **options, "kernel": "explicit"})

    def visible(self, here: Tensor, there: Tensor) -> Tensor | None:
        return (there - here).abs() <= self.radius


class LocalPredictive(LocalMonotonic):
    """Attention local-p: each query predicts a source position, and reads the tokens around it.

        p = S sigmoid(vp . tanh(Wp q)),   S the length of the row
        out = concat_h( softmax_s(e(q_h, k_hs)) exp(-(s - p)^2 / (2 (radius / 2)^2)) v_hs ) Wo

    for positions s, counted from 0, with |s - p| <= radius. The weights sum to less than one. Each
    head has its own Wp and vp, applied to its query (in a recurrent model, the decoder's state). vp
    starts at zero, so that all heads first read the middle of the source.

    Args and raises: same as `LocalMonotonic`.
    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    sums_to_one = False

    def __init__(self, place: Place, **options: Any):
        super().__init__(place, **options)
        H, D = self.num_heads, self.width
        self.centre = nn.ParameterDict()
        self.centre["wp"], self.centre["vp"] = xavier(H, D, D), nn.Parameter(torch.zeros(H, D))
        self.reads_queries = True

    def attend_heads(
        self, q: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        streams, mask = memory.read()
        k, v = streams["k"].transpose(1, 2), streams["v"].transpose(1, 2)  # (N, H, S, D)
        if mask is None:
            mask = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool, device=k.device)
        out, weights = local_attention(
            self.score(self.score.queries(q), k),
            v,
            predict_centres(q, **self.centre, lengths=mask.sum(1)),
            self.radius,
            gaussian=True,
            mask=mask[:, None, None],
            dropout=self.dropout_now,
        )
        return out, weights if need_weights else None

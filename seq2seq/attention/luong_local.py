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
    """local-m: the word at target position t reads the source from t - radius to t + radius.

        out = concat_h( softmax_s(e(q_h, k_hs)) v_hs ) Wo,   |s - t| <= radius

    A word more than `radius` after the source's last token reads nothing: its window is empty, and
    its weights and output are zeros.

    Args:
        place: surroundings of the attention, a cross-attention.
        num_heads: H; divides the width.
        radius: D of the paper: source tokens to either side of the centre.
        score, project, bias, dropout: options of `MultiHead`. The weights are always written out.

    Raises: ConfigError for a radius below 1, for heads that do not divide the width, and for a
        score that the widths refuse.
    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    roles = frozenset({Role.CROSS})
    role_refusals = {
        Role.ENCODER: "it asks where in another sentence a word comes from",
        Role.DECODER: "it asks where in another sentence a word comes from, and its window has "
        "the future in it",
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
    """local-p: each word predicts a place in the source, and reads around it.

        p = S sigmoid(vp . tanh(Wp q)),   S the length of the row
        out = concat_h( softmax_s(e(q_h, k_hs)) exp(-(s - p)^2 / (2 (radius / 2)^2)) v_hs ) Wo

    over the s with |s - p| <= radius, counted from 0. The weights sum to less than one. Each head
    has a Wp and a vp, which read its query: in a recurrent model, the decoder's state. vp starts at
    zero: all heads look at the middle of the source at first, and learn from the first step.

    Args and raises: as `LocalMonotonic`.
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

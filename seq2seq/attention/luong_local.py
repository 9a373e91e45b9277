"""Luong's local attention: every target word reads a window of the source."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Cost, Place, Role, positions_of
from seq2seq.attention.heads import join_heads, split_heads
from seq2seq.attention.memory import TokenMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import xavier
from seq2seq.functional import local_attention, predicted_centres
from seq2seq.tables import check_range


class Centre(nn.Module):
    """Where each query looks: at its own position in the target."""

    reads_queries: ClassVar[bool] = False

    def __init__(self, heads: int, width: int):
        super().__init__()

    def forward(self, q: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """Broadcastable to (N, H, T).

        Args:
            q: of the heads, (N, H, T, D).
            positions: of the queries in the target, (T,) or (N, T).
            lengths: real source tokens, (N,).
        """
        return positions.unsqueeze(-2)


class PredictedCentre(Centre):
    """S sigmoid(vp . tanh(Wp q)), S the length of the row. vp starts at zero: at the middle."""

    reads_queries = True

    def __init__(self, heads: int, width: int):
        super().__init__(heads, width)
        self.wp = xavier(heads, width, width)
        self.vp = nn.Parameter(torch.zeros(heads, width))

    def forward(self, q: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """As of `Centre`."""
        return predicted_centres(q, self.wp, self.vp, lengths)


class LocalMonotonic(MultiHead):
    """local-m: the word at target position t reads the source from t - radius to t + radius.

        out = concat_h( softmax_s(e(q_h, k_hs)) v_hs ) Wo,   |s - t| <= radius

    A word more than `radius` after the source's last token reads nothing: its window is empty, and
    its weights and output are zeros.

    Args:
        place: where it stands; cross-attention.
        num_heads: H; divides the width.
        radius: D of the paper: source tokens to either side of the centre.
        score, project, bias, dropout: as in `MultiHead`. The weights are always written out.

    Raises: ConfigError for a radius below 1, for heads that do not divide, and for a score that
    the widths refuse.
    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    roles = frozenset({Role.CROSS})
    role_refusals = {
        Role.ENCODER: "it asks where in another sentence a word comes from",
        Role.DECODER: "it asks where in another sentence a word comes from, and its window has "
        "the future in it",
    }
    supports = frozenset()
    looks: ClassVar[type[Centre]] = Centre
    gaussian = False  # does a weight fall with the distance from the centre?

    def __init__(
        self,
        place: Place,
        *,
        num_heads: int,
        radius: int = 10,
        score: str = "general",
        project: bool = True,
        bias: bool = False,
        dropout: float = 0.0,
    ):
        check_range("attn.radius", radius, 1)
        super().__init__(
            place,
            num_heads=num_heads,
            num_kv_heads=num_heads,
            score=score,
            kernel="explicit",
            project=project,
            bias=bias,
            dropout=dropout,
        )
        self.radius = radius
        self.centre = self.looks(num_heads, self.width)
        self.reads_queries |= self.centre.reads_queries

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        return super().cost({"score": "general", **options, "kernel": "explicit"})

    def attend(
        self,
        x: Tensor,
        memory: TokenMemory,
        positions: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        streams, mask = memory.read()
        k, v = streams["k"].transpose(1, 2), streams["v"].transpose(1, 2)  # (N, H, S, D)
        if mask is None:
            mask = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool, device=k.device)
        q = split_heads(self.q(x), self.num_heads)
        out, weights = local_attention(
            self.score(self.score.queries(q), k),
            v,
            self.centre(q, positions_of(x, positions), mask.sum(1)),
            self.radius,
            gaussian=self.gaussian,
            mask=mask[:, None, None],
            dropout=self.dropout if self.training else 0.0,
        )
        return Attended(self.out(join_heads(out)), weights if need_weights else None)


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
    looks = PredictedCentre
    gaussian = True

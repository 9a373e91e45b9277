"""Attention to a window of keys and to a few global tokens."""

import copy
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Attended, Cost, Place, Role
from seq2seq.attention.heads import position_bias
from seq2seq.attention.ring import RingMemory
from seq2seq.attention.windowed import WindowedAttention
from seq2seq.base.registry import check_range
from seq2seq.functional import explicit_attention
from seq2seq.functional.local import window_attention
from seq2seq.functional.scores import dot


class Longformer(WindowedAttention):
    """Attention of a query to the keys near it and to a few global keys. In the encoder, the global
    tokens read all keys.

        local query i    out_i = sum_j a_ij v_j,   a_i = softmax over { j : |i - j| <= r or j < g }
        global query i   the same over all j, with separate projections: qg_i, kg_j, vg_j

    The window and the global keys share one softmax, and a global key within the window counts
    once. The first g tokens, such as a language tag, are global, unless they are padding.

    In the decoder a query reads only the keys up to itself, and global queries use the same
    projections as the others: separate ones would learn almost nothing (with g = 1 their softmax
    has one key, so that qg and kg get no gradient).

    Args:
        place: surroundings of the attention, a self-attention.
        num_heads: H; divides the width.
        window: r, distance of the farthest key that is read on each side; the paper's w is 2 r.
            The default is for sentences: six layers reach 48 tokens on each side.
        num_global: g, number of global tokens; 0 for the window only.
        bias: whether the projections have biases.
        dropout: probability of dropping a weight in training.

    Raises: ConfigError if `num_heads` does not divide the width or does not fit the position
        scheme, or if a value is out of range.
    Source: Beltagy et al. 2020, arXiv:2004.05150.
    """

    usual_cost = Cost(
        time="T (2 window + 1 + num_global) D",
        memory="T (2 window + 1 + num_global)",
        remembers="k, v (2 H D) of the last window and the first num_global tokens",
    )

    def __init__(self, place: Place, *, window: int = 8, num_global: int = 1, **options: Any):
        super().__init__(place, **options)
        check_range("attn.window", window, 1)
        check_range("attn.num_global", num_global, 0)
        self.window = window
        self.num_global = num_global
        self.has_global_queries = place.role is Role.ENCODER and num_global > 0
        if self.has_global_queries:
            self.q_global = copy.deepcopy(self.q)
            self.k_global = copy.deepcopy(self.k)
            self.v_global = copy.deepcopy(self.v)

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """Make the streams k and v and, for global queries, k_global and v_global, (N, H, S, D)."""
        streams = super().remember(x, positions)
        if self.has_global_queries:
            streams["k_global"] = self.heads_at(self.k_global(x), positions)
            streams["v_global"] = self.heads(self.v_global(x))
        return streams

    def new_memory(self) -> RingMemory:
        return RingMemory(self.window, self.num_global)

    def attend(
        self, x: Tensor, memory: RingMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        out, weights = window_attention(
            self.heads_at(self.q(x), positions),
            memory.read(),
            memory.read_first(),
            self.softmax_options(need_weights),
            radius=self.window,
            causal=self.place.role is Role.DECODER,
        )
        if self.has_global_queries:
            of_global, rows = self._attend_globally(x, memory, positions)
            out = torch.cat((of_global, out[:, :, self.num_global :]), dim=2)
            if weights is not None:
                weights = torch.cat((rows, weights[:, :, self.num_global :]), dim=2)
        return Attended(self.project_out(out), weights)

    def _attend_globally(
        self, x: Tensor, memory: RingMemory, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attend from the first g queries to all keys: out (N, H, g, D), weights (N, H, g, S)."""
        g = self.num_global
        q = self.heads_at(self.q_global(x[:, :g]), positions[..., :g])
        k, v, mask, _ = memory.read("_global")
        places = torch.arange(q.shape[2], device=x.device)
        return explicit_attention(
            dot(q, k, self.scale),
            v,
            mask=None if mask is None else mask[:, None, None],
            bias=position_bias(self.place, q, places, k.shape[2]),
            dropout=self.dropout_now,
        )

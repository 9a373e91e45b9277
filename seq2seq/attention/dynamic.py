"""Context attention in two passes: queries that depend on what they would read."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Cost, Place, positions_of
from seq2seq.attention.heads import join_heads, split_heads
from seq2seq.attention.memory import TokenMemory
from seq2seq.attention.multihead import Kernel, MultiHead
from seq2seq.functional.context import modulate
from seq2seq.functional.scores import project_per_head


class DynamicContext(MultiHead):
    """Attention in two passes: what a query reads in the first scales it for the second.

        o_i = attention(q_i, K, V),  out_i = attention(q_i (1 + Wf o_i), K, V)

    Weights are those of the second pass, before its dropout. In training they change from call to
    call, with the dropout of the first pass.

    Args:
        place: where it stands.
        num_heads, num_kv_heads, kernel, bias, dropout: as of `MultiHead`.

    Raises: ConfigError, as `MultiHead`.
    """

    def __init__(
        self,
        place: Place,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        kernel: Kernel = "auto",
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(
            place,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            kernel=kernel,
            bias=bias,
            dropout=dropout,
        )
        # Wf of each head, (H, D, D): it starts as multi-head attention.
        self.feedback = nn.Parameter(torch.zeros(num_heads, self.width, self.width))

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        cost = super().cost(options)
        return cost._replace(time=f"2 {cost.time}", memory=f"2 ({cost.memory})")

    def attend(
        self,
        x: Tensor,
        memory: TokenMemory,
        positions: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        q, here = split_heads(self.q(x), self.num_heads), positions_of(x, positions)
        first, _ = self.answer(q, memory, here)
        q = modulate(q, project_per_head(first, self.feedback))
        out, weights = self.answer(q, memory, here, need_weights)
        return Attended(self.out(join_heads(out)), weights)

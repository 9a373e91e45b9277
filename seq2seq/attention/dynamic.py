"""Context attention in two passes: the first pass changes the queries of the second."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Cost, Place
from seq2seq.attention.memory import TokenMemory
from seq2seq.attention.multihead import NO_SCORES, MultiHead
from seq2seq.functional.context import modulate
from seq2seq.functional.scores import project_per_head


class DynamicContext(MultiHead):
    """Attention in two passes: the output of the first pass scales the query of the second.

        o_i = attention(q_i, K, V),  out_i = attention(q_i (1 + Wf o_i), K, V)

    The weights that are returned are those of the second pass, before its dropout. In training they
    differ from call to call because of the dropout in the first pass.

    Args:
        place: surroundings of the attention.
        num_heads, num_kv_heads, kernel, bias, dropout: options of `MultiHead`.

    Raises: ConfigError in the same cases as `MultiHead`.
    """

    absent_options = NO_SCORES

    def __init__(self, place: Place, **options: Any):
        super().__init__(place, **options)
        # Wf of each head, (H, D, D). Zero at first, which is the same as multi-head attention.
        self.feedback = nn.Parameter(torch.zeros(self.num_heads, self.width, self.width))

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        cost = super().cost(options)
        return cost._replace(time=f"2 {cost.time}", memory=f"2 ({cost.memory})")

    def attend_heads(
        self, q: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        first, _ = super().attend_heads(q, memory, positions)
        q = modulate(q, project_per_head(first, self.feedback))
        return super().attend_heads(q, memory, positions, need_weights)

"""Linformer: a sequence of any length, compressed to a few mixtures of its positions."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Cost, Encoded, Place, Role
from seq2seq.attention.heads import HeadedAttention
from seq2seq.attention.memory import StateMemory
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.functional import fused_attention
from seq2seq.functional.lowrank import project_length


class Linformer(HeadedAttention[StateMemory]):
    """Attention to R learnt mixtures of all positions instead of the positions themselves.

        out = concat_h( softmax(q_h (E Wk x)^T / sqrt(D)) (F Wv x) ) Wo

    E and F are R x `length`; a sequence of S tokens uses the first S columns. As in the paper, they
    are applied after Wk and Wv, to keys and values whose padding is zero. With biases this differs
    from mixing x itself. The R mixtures are never masked.

    Mixture i starts as the sum of the positions i, i + R, i + 2 R, ... The paper starts from random
    values, with which short training runs do not learn to read single words.

    A sequence is remembered as 2 R D values per head, whatever its length.

    Args:
        place: surroundings of the attention: encoder self-attention or cross-attention.
        num_heads: H; divides the width.
        rank: R, number of mixtures per head.
        length: most tokens of a sequence that it can read, including eos.
        share: matrices that are shared. `none`: each head has its own E and F; `heads`: all heads
            share E and F; `key_value`: one matrix for everything, E = F. (The paper's last kind,
            sharing between layers, is not available: it would need a parameter of the model.)
        bias: whether the projections have biases.
        dropout: probability of dropping one of the T x R weights in training.

    Raises: ConfigError if `num_heads` does not divide the width, if the rank is above the length,
        or if a sequence is longer than the length.
    Source: Wang et al. 2020, arXiv:2006.04768.
    """

    roles = frozenset({Role.ENCODER, Role.CROSS})
    role_refusals = {Role.DECODER: "each compressed key mixes all positions, future ones included"}
    position_refusals = {
        "rotate": "it would mix keys with different rotations before comparing them with queries",
        "bias": "its keys are mixtures of all positions, which have no distance from a query",
    }
    usual_cost = Cost("(T + S) R D", "T + S + R D", remembers="E k, F v (2 R H D) a sentence")
    shows_weights = False
    has_constant_step = True
    no_weights = "every query reads mixtures of all words"
    F: nn.Parameter | None

    def __init__(
        self,
        place: Place,
        *,
        rank: int = 64,
        length: int = 256,
        share: Literal["none", "heads", "key_value"] = "heads",
        **options: Any,
    ):
        super().__init__(place, **options)
        check_range("attn.length", length, 1)
        check_range("attn.rank", rank, 1)
        if rank > length:
            raise ConfigError(
                f"attn.rank={rank} is more than attn.length={length}: that would expand the "
                f"sequence. Type attn.rank={length} or less"
            )
        self.max_length = length
        shape = (self.num_heads if share == "none" else 1, rank, length)
        self.E = nn.Parameter(torch.empty(shape))
        # Position j goes to mixture j mod R: a sentence of up to R tokens starts unmixed.
        start = torch.eye(rank).repeat(1, -(-length // rank))[:, :length].expand(shape)
        self.E.data.copy_(start)
        self.register_parameter("F", None if share == "key_value" else nn.Parameter(start.clone()))

    def memory_of(self, encoded: Encoded) -> StateMemory:
        x, mask, _ = encoded
        if self.max_length is not None and x.shape[1] > self.max_length:
            raise ConfigError(
                f"a source of {x.shape[1]} pieces is longer than attn.length={self.max_length} of "
                f"this {self.place.role.description}. For training, set attn.length={x.shape[1]} "
                f"or data.max_length={self.max_length}"
            )
        k, v = self.heads(self.k(x)), self.heads(self.v(x))
        of_values = self.E if self.F is None else self.F
        return StateMemory(k=project_length(k, self.E, mask), v=project_length(v, of_values, mask))

    def attend(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        if need_weights:
            raise ValueError(
                f"attention 'linformer' has no weights of single tokens: {self.no_weights}"
            )
        q, k, v = self.heads(self.q(x)), memory.state["k"], memory.state["v"]
        out = fused_attention(q, k, v, scale=self.scale, dropout=self.dropout_now)
        return Attended(self.project_out(out), None)

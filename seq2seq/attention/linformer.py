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
    """Every query reads R learnt mixtures of all positions instead of the positions themselves.

        out = concat_h( softmax(q_h (E Wk x)^T / sqrt(D)) (F Wv x) ) Wo

    E and F are R x `length`, of which a sequence of S tokens uses the first S columns. They act
    after Wk and Wv, as in the paper, where rows of padding are zero: with biases that differs from
    mixing x itself. The R mixtures are never masked.

    Mixture i starts as the sum of the positions i, i + R, i + 2 R, ...; the paper starts from
    random values, from which a short run does not learn to read single words.

    A sequence is remembered as 2 R D values a head, whatever its length.

    Args:
        place: surroundings of the attention: encoder self-attention or cross-attention.
        num_heads: H; divides the width.
        rank: R, mixtures a head.
        length: tokens of the longest sequence it can read, eos included.
        share: `none`: an E and an F for each head; `heads`: all heads share both; `key_value`: one
            matrix, E = F. (Sharing between layers, the paper's last kind, would be a parameter of
            the model and is not offered.)
        bias: whether the projections have biases.
        dropout: probability of dropping one of the T x R weights in training.

    Raises: ConfigError for heads that do not divide the width, a rank above the length, and a
        sequence longer than the length.
    Source: Wang et al. 2020, arXiv:2006.04768.
    """

    roles = frozenset({Role.ENCODER, Role.CROSS})
    role_refusals = {Role.DECODER: "each compressed key mixes all positions, future ones included"}
    position_refusals = {
        "rotate": "it mixes keys of different rotations before queries meet them",
        "bias": "its keys are mixtures of all positions and stand at no distance from a query",
    }
    usual_cost = Cost("(T + S) R D", "T + S + R D", remembers="E k, F v (2 R H D) a sentence")
    shows_weights = False
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
                f"a source of {x.shape[1]} pieces is longer than the {self.max_length} that this "
                f"{self.place.role.description} can mix. For training: attn.length={x.shape[1]}, "
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

"""LSH attention, within buckets of hashed queries."""

from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq.attention.base import Attended, Cost, Encoded, Place, Role
from seq2seq.attention.heads import HeadedAttention, projection
from seq2seq.attention.memory import StateMemory
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.functional import attend
from seq2seq.functional import dropout as drop
from seq2seq.functional.lsh import (
    count_scores,
    hash_buckets,
    lsh_attention,
    lsh_weights,
    unit_vectors,
)
from seq2seq.functional.lsh_rings import (
    Near,
    Rings,
    attend_near,
    empty_rings,
    read_rings,
    write_rings,
)


class Reformer(HeadedAttention[StateMemory]):
    """Every token reads those whose queries point the same way, in its bucket of a random hash.

        e_ij = q_i . k_j,   q = Wqk x,   k = q / |q|,   bucket_r = argmax [q R_r ; -q R_r]

    Queries and keys are one projection, so that a bucket holds both. In a round a token reads the
    others of its bucket in its own chunk and the one before, in the encoder also the one after;
    chunks are counted inside a bucket, by position (defined by `functional.lsh.rounds_seen`).
    Rounds are joined with the weights e^(z_r - z), z_r the logsumexp of a round: a key that is met
    twice counts twice. A token reads itself only if it meets no other in any round. Positions act
    after hashing.

    Args:
        place: surroundings of the attention.
        num_heads: H; divides the width.
        num_buckets: number of buckets in a round, even. It does not follow the length, so that what
            a token reads does not depend on what comes after it.
        chunk: tokens of a chunk, m.
        rounds: R, hashes, drawn independently.
        kernel: `explicit` writes T x T weights out; `chunks` sorts tokens and never does; `auto`
            takes whichever needs fewer scores. Both give the same result up to rounding.
        bias: whether the projections have biases.
        dropout: probability of dropping a weight in training.

    Attributes:
        rotations: the random directions, (R, H, D, num_buckets / 2): not trained, saved with the
            weights.

    Raises: ConfigError for heads that do not divide the width, and for an odd number of buckets.
    Source: Kitaev et al. 2020, arXiv:2001.04451. Their chunks are cut from all tokens sorted by
    bucket, where later tokens and padding move the borders; these are not. They also divide each
    e^(e_ij) by the number of rounds in which i meets j (N_ij of their appendix A), so that rounds
    form a union in which a key counts once; here it counts in each round.
    """

    roles = frozenset({Role.ENCODER, Role.DECODER})
    role_refusals = {
        Role.CROSS: "it makes queries and keys with one projection of the same tokens, so that "
        "they share buckets, and source and target are not the same tokens"
    }
    supports = frozenset({"rotate", "bias"})
    usual_cost = Cost(
        time="T log T + T rounds chunk D",
        memory="T rounds (chunk + D)",
        remembers="k, v of 2 rounds num_buckets chunk tokens (2 H D each)",
    )
    rotations: Tensor

    def __init__(
        self,
        place: Place,
        *,
        num_buckets: int = 4,
        chunk: int = 16,
        rounds: int = 2,
        kernel: Literal["auto", "explicit", "chunks"] = "auto",
        **options: Any,
    ):
        super().__init__(place, **options)
        check_range("attn.num_buckets", num_buckets, 2)
        if num_buckets % 2:
            raise ConfigError(
                f"attn.num_buckets={num_buckets} should be even, since each random direction and "
                f"its opposite get a bucket: attn.num_buckets={num_buckets + 1}"
            )
        check_range("attn.chunk", chunk, 1)
        check_range("attn.rounds", rounds, 1)
        self.num_buckets = num_buckets
        self.chunk = chunk
        self.kernel = kernel
        size = (rounds, self.num_heads, self.width, num_buckets // 2)
        self.register_buffer("rotations", torch.empty(size))
        self.rotations.normal_()

    def build_projections(self, bias: bool) -> None:
        dim = self.place.dim
        self.qk = projection(dim, dim, bias, gain=0.5**0.5)
        self.v = projection(dim, dim, bias, gain=0.5**0.5)
        self.out = projection(dim, dim, bias)

    def memory_of(self, encoded: Encoded) -> StateMemory:
        state = {"qk": self.qk(encoded.states), "v": self.v(encoded.states), "mask": encoded.mask}
        return StateMemory(**{name: x for name, x in state.items() if x is not None})

    def new_memory(self) -> StateMemory:
        return StateMemory()

    def attend(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        # Queries are made with the keys: they are the last T of what is remembered.
        T, S = x.shape[1], memory.state["qk"].shape[1]
        qk, v = self.heads(memory.state["qk"]), self.heads(memory.state["v"])
        buckets = hash_buckets(qk, self.rotations)
        q, k = self._queries_and_keys(qk, torch.arange(S, device=x.device))
        bias = self.place.bias(torch.arange(1 - S, S, device=x.device)[None], self.num_heads)
        seen: dict[str, Any] = {
            "mask": memory.state.get("mask"),
            "bias": None if bias is None else bias[:, 0],
            "causal": self.place.role is Role.DECODER,
        }
        weights, dropout = None, self.dropout_now
        if need_weights or self._writes_weights(S):
            weights = lsh_weights(q, k, buckets, self.chunk, **seen)
            out = attend(drop(weights, dropout), v)
        else:
            out = lsh_attention(
                q, k, v, buckets, self.num_buckets, self.chunk, dropout=dropout, **seen
            )
        shown = weights[:, :, S - T :] if need_weights and weights is not None else None
        return Attended(self.project_out(out[:, :, S - T :]), shown)

    def _writes_weights(self, T: int) -> bool:
        if self.kernel != "auto":
            return self.kernel == "explicit"
        # For a short sentence most chunks are empty.
        causal, rounds = self.place.role is Role.DECODER, len(self.rotations)
        return rounds * count_scores(T, self.num_buckets, self.chunk, causal) >= T * T

    def advance(self, x: Tensor, memory: StateMemory, positions: Tensor) -> Tensor:
        qk, v = self.heads(self.qk(x)), self.heads(self.v(x))
        buckets = hash_buckets(qk, self.rotations)
        q, k = self._queries_and_keys(qk, positions)
        if not memory.state:
            rounds = len(self.rotations)
            memory.state = empty_rings(k, v, rounds, self.num_buckets, self.chunk)._asdict()
        rings = Rings(**memory.state)
        outs = []
        for t in range(x.shape[1]):
            query, key, value, bucket = q[:, :, t], k[:, :, t], v[:, :, t], buckets[..., t]
            near = read_rings(rings, bucket)
            write_rings(rings, key, value, bucket)
            bias = self._bias_near(near)
            outs.append(attend_near(query, value, near, bias=bias, dropout=self.dropout_now))
        return self.project_out(torch.stack(outs, dim=2))

    def _queries_and_keys(self, qk: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(N, H, T, D), turned by their positions."""
        qk = self.place.rotate(qk, positions)
        return qk, unit_vectors(qk)

    def _bias_near(self, near: Near) -> Tensor | None:
        """The bias of each head for the keys near its newest token, (N, H, W)."""
        distance = near.positions[..., :-1] - near.positions[..., -1:]
        # (N, H, H, 1, W): all heads, of each head's keys
        bias = self.place.bias(distance[:, :, None], self.num_heads)
        return None if bias is None else bias[..., 0, :].diagonal(dim1=1, dim2=2).movedim(-1, 1)

"""LSH attention, within buckets of hashed queries."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq.attention.base import Attended, Attention, Cost, Encoded, Place, Role
from seq2seq.attention.heads import (
    check_heads,
    check_position_of_heads,
    join_heads,
    projection,
    split_heads,
)
from seq2seq.attention.memory import StateMemory
from seq2seq.errors import ConfigError
from seq2seq.functional import attend
from seq2seq.functional import dropout as drop
from seq2seq.functional.lsh import (
    hash_buckets,
    lsh_attention,
    lsh_weights,
    scores_in_chunks,
    unit,
)
from seq2seq.functional.lsh_rings import (
    Near,
    Rings,
    attend_near,
    empty_rings,
    read_rings,
    write_rings,
)
from seq2seq.tables import check_range


class Reformer(Attention[StateMemory]):
    """Every token reads those whose queries point the same way, in its bucket of a random hash.

        e_ij = q_i . k_j,   q = Wqk x,   k = q / |q|,   bucket_r = argmax [q R_r ; -q R_r]

    Queries and keys are one projection, so that a bucket holds both. In a round a token reads the
    others of its bucket in its own chunk and the one before, in the encoder also the one after;
    chunks are counted inside a bucket, by position (defined by `functional.lsh.rounds_seen`).
    Rounds are joined with the weights e^(z_r - z), z_r the logsumexp of a round: a key that is met
    twice counts twice. A token reads itself only if it meets no other in any round. Positions act
    after hashing.

    Args:
        place: where it stands.
        num_heads: H; divides the width.
        num_buckets: of a round, even. It does not follow the length, so that what a token reads
            does not depend on what comes after it.
        chunk: tokens of a chunk, m.
        rounds: R, hashes, drawn independently.
        kernel: `explicit` writes T x T weights out; `chunks` sorts tokens and never does; `auto`
            takes whichever needs fewer scores. Both give the same result up to rounding.
        bias: do the projections have biases?
        dropout: on the weights, in training.

    Attributes:
        rotations: the random directions, (R, H, D, num_buckets / 2): not trained, saved with the
            weights.

    Raises: ConfigError for heads that do not divide, and for an odd number of buckets.
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
    rotations: Tensor

    def __init__(
        self,
        place: Place,
        *,
        num_heads: int,
        num_buckets: int = 4,
        chunk: int = 16,
        rounds: int = 2,
        kernel: Literal["auto", "explicit", "chunks"] = "auto",
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(place)
        check_heads(num_heads, num_heads, place.dim)
        check_range("attn.num_buckets", num_buckets, 2)
        if num_buckets % 2:
            raise ConfigError(
                f"attn.num_buckets={num_buckets} should be even, since each random direction and "
                f"its opposite get a bucket: attn.num_buckets={num_buckets + 1}"
            )
        check_range("attn.chunk", chunk, 1)
        check_range("attn.rounds", rounds, 1)
        check_range("attn.dropout", dropout, 0, 1)
        width = place.dim // num_heads
        check_position_of_heads(place, num_heads, width)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.chunk = chunk
        self.kernel = kernel
        self.dropout = dropout
        self.qk = projection(place.dim, place.dim, bias, gain=0.5**0.5)
        self.v = projection(place.dim, place.dim, bias, gain=0.5**0.5)
        self.out = projection(place.dim, place.dim, bias)
        self.register_buffer("rotations", torch.empty(rounds, num_heads, width, num_buckets // 2))
        self.rotations.normal_()

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        return Cost(
            time="T log T + T rounds chunk D",
            memory="T rounds (chunk + D)",
            remembers="k, v of 2 rounds num_buckets chunk tokens (2 H D each)",
        )

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
        qk, v = (split_heads(memory.state[name], self.num_heads) for name in ("qk", "v"))
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
        out = self.out(join_heads(out[:, :, S - T :]))
        shown = weights[:, :, S - T :] if need_weights and weights is not None else None
        return Attended(out, shown)

    def _writes_weights(self, T: int) -> bool:
        if self.kernel != "auto":
            return self.kernel == "explicit"
        # For a short sentence most chunks are empty.
        causal, rounds = self.place.role is Role.DECODER, len(self.rotations)
        return rounds * scores_in_chunks(T, self.num_buckets, self.chunk, causal) >= T * T

    def advance(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        qk, v = split_heads(self.qk(x), self.num_heads), split_heads(self.v(x), self.num_heads)
        buckets = hash_buckets(qk, self.rotations)
        q, k = self._queries_and_keys(qk, positions)
        if not memory.state:
            rounds = len(self.rotations)
            memory.state = empty_rings(k, v, rounds, self.num_buckets, self.chunk)._asdict()
        rings = Rings(**memory.state)
        outs, weights, places = [], [], []
        for t in range(x.shape[1]):
            query, key, value, bucket = q[:, :, t], k[:, :, t], v[:, :, t], buckets[..., t]
            near = read_rings(rings, bucket)
            write_rings(rings, key, value, bucket)
            bias = self._bias_near(near)
            out, weight = attend_near(query, value, near, bias=bias, dropout=self.dropout_now)
            outs.append(out)
            weights.append(weight)
            places.append(near.positions)
        out = self.out(join_heads(torch.stack(outs, dim=2)))
        if not need_weights:
            return Attended(out, None)
        S = int(rings.counts[:, 0, 0].sum(-1).max())
        held, at = torch.stack(weights, dim=2), torch.stack(places, dim=2)  # (N, H, n, W + 1)
        return Attended(out, held.new_zeros(*held.shape[:3], S).scatter_add(-1, at, held))

    def _queries_and_keys(self, qk: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(N, H, T, D), turned by their positions."""
        qk = self.place.rotate(qk, positions)
        return qk, unit(qk)

    def _bias_near(self, near: Near) -> Tensor | None:
        """The bias of each head for the keys near its newest token, (N, H, W)."""
        distance = near.positions[..., :-1] - near.positions[..., -1:]
        # (N, H, H, 1, W): all heads, of each head's keys
        bias = self.place.bias(distance[:, :, None], self.num_heads)
        return None if bias is None else bias[..., 0, :].diagonal(dim1=1, dim2=2).movedim(-1, 1)

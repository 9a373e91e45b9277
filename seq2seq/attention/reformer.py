"""LSH attention: attention within buckets of hashed queries."""

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
    """Attention of each token to tokens in the same bucket of a random hash, whose queries point in
    similar directions.

        e_ij = q_i . k_j,   q = Wqk x,   k = q / |q|,   bucket_r = argmax [q R_r ; -q R_r]

    Queries and keys come from one projection, so that a bucket holds both. In each round a token
    reads the other tokens of its bucket that are in its own chunk or the one before, and in the
    encoder also the one after. Chunks are counted inside a bucket, by position
    (`functional.lsh.rounds_seen` defines them). Rounds are combined with the weights e^(z_r - z),
    where z_r is the logsumexp of a round: a key that is read in two rounds counts twice. A token
    reads itself only if it reads no other token in any round. Positions are applied after hashing.

    Args:
        place: surroundings of the attention.
        num_heads: H; divides the width.
        num_buckets: number of buckets in a round, even. It does not depend on the length, so that
            the tokens that a token reads do not depend on later ones.
        chunk: m, number of tokens in a chunk.
        rounds: R, number of hashes, drawn independently.
        kernel: way of computing, with the same result up to rounding. `explicit` holds T x T
            weights; `chunks` sorts the tokens instead; `auto` takes the one with fewer scores.
        bias: whether the projections have biases.
        dropout: probability of dropping a weight in training.

    Attributes:
        rotations: random directions, (R, H, D, num_buckets / 2), saved with the weights but not
            trained.

    Raises: ConfigError if `num_heads` does not divide the width, or the number of buckets is odd.
    Source: Kitaev et al. 2020, arXiv:2001.04451. Their chunks are cut from all tokens sorted by
    bucket, so that later tokens and padding move the borders; that is not so here. They also divide
    each e^(e_ij) by the number of rounds in which i reads j (N_ij in their appendix A), so that a
    key counts once; here it counts in each round.
    """

    roles = frozenset({Role.ENCODER, Role.DECODER})
    role_refusals = {
        Role.CROSS: "its queries and keys are one projection of the same tokens, so that they "
        "share buckets, but source and target are different tokens"
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
        # Queries and keys are the same vectors: the queries are the last T that are remembered.
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
        # In a short sentence most chunks are empty, so that explicit weights need fewer scores.
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
        """Rotate by position, and normalise the keys: (N, H, T, D) each."""
        qk = self.place.rotate(qk, positions)
        return qk, unit_vectors(qk)

    def _bias_near(self, near: Near) -> Tensor | None:
        """The bias of each head for the keys in the buckets of its newest token, (N, H, W)."""
        distance = near.positions[..., :-1] - near.positions[..., -1:]
        # (N, H, H, 1, W): the biases of all heads for each head's keys; take the diagonal
        bias = self.place.bias(distance[:, :, None], self.num_heads)
        return None if bias is None else bias[..., 0, :].diagonal(dim1=1, dim2=2).movedim(-1, 1)

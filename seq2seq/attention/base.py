"""The interface of attention mechanisms: remember tokens, then attend to them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from seq2seq.attention.memory import DenseMemory, Memory, TokenMemory

M = TypeVar("M", bound=Memory)


class Role(StrEnum):
    """The place of an attention in an encoder-decoder."""

    ENCODER = "encoder"  # self-attention over the source; a token sees every real token
    DECODER = "decoder"  # self-attention over the target; a token sees itself and the past
    CROSS = "cross"  # target queries, source keys; a query sees every real source token

    @property
    def description(self) -> str:
        return "cross-attention" if self is Role.CROSS else f"{self.value} self-attention"


class Position(Protocol):
    """The interface of a position scheme inside attention; see `nn.positions`."""

    hook: ClassVar[str | None]
    heads: int | None  # number of heads that it is made for; None = any number

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor: ...

    def bias(self, distance: Tensor, heads: int) -> Tensor | None: ...

    def relate(self, q: Tensor, distance: Tensor) -> Tensor | None: ...


class Place(NamedTuple):
    """The surroundings of an attention: its role, its widths and its position scheme."""

    role: Role
    dim: int  # E, width of the queries and, unless the mechanism says otherwise, of the output
    source_dim: int  # width of the tokens that are attended to
    position: Position | None = None  # only for self-attention, if it acts inside attention

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys (N, H, T, D), if the position scheme does that."""
        return x if self.position is None else self.position.rotate(x, positions)

    def bias(self, distance: Tensor, heads: int) -> Tensor | None:
        """Biases of these distances, to add to scores: (..., T, S) -> (..., H, T, S), or None."""
        return None if self.position is None else self.position.bias(distance, heads)


class Encoded(NamedTuple):
    """A whole sequence that can be attended to, such as the encoder's output."""

    states: Tensor  # (N, S, E_source)
    mask: Tensor | None = None  # (N, S) bool, True = real token; None = all are real
    # Index of each token's group at each level, (N, S, levels); None = unknown. Only hierarchical
    # context reads it.
    groups: Tensor | None = None

    @property
    def real(self) -> Tensor:
        """The mask; all True if there is none."""
        if self.mask is not None:
            return self.mask
        return self.states.new_ones(self.states.shape[:2], dtype=torch.bool)


class Attended(NamedTuple):
    """The output of an attention."""

    out: Tensor  # (N, T, E)
    weights: Tensor | None  # (N, H, T, S), before dropout; None unless requested


class Cost(NamedTuple):
    """The cost of a mechanism, up to constant factors, for the table of the zoo.

    Letters are those of `functional`; others are options that the mechanism's docstring names.
    """

    time: str  # time for T queries and S keys, per head
    memory: str  # elements held in training besides inputs and outputs, per head
    remembers: str  # memory while decoding


class Attention(nn.Module, Generic[M]):
    """Base of attention mechanisms; M is the kind of memory that the mechanism needs.

    Training remembers and attends to the same tensor, cross-attention remembers the source once and
    attends to it at every step, and decoding remembers one token and attends to all. A mechanism
    that keeps one entry per token can derive from `TokenAttention`, which has fewer methods to
    write.
    """

    roles: ClassVar[frozenset[Role]] = frozenset(Role)  # roles that it is defined for
    role_refusals: ClassVar[Mapping[Role, str]] = {}  # other roles -> the reason, "it ..."
    supports: ClassVar[frozenset[str]] = frozenset()  # hooks of position schemes that it supports
    position_refusals: ClassVar[Mapping[str, str]] = {}  # other hooks -> the reason, "it ..."
    usual_cost: ClassVar[Cost]  # cost with any options; override `cost` if it depends on them
    absent_options: ClassVar[Mapping[str, str]] = {}  # options that it lacks -> the reason
    shows_weights: ClassVar[bool] = True  # whether it can show (T, S) weights
    no_weights: ClassVar[str] = ""  # the reason if it cannot, "every query ..."
    can_merge: ClassVar[bool] = True  # whether rows of different lengths can share a decoder batch
    # Whether a decoding step is tensor code whose sizes do not depend on the length, and keeps its
    # past in a `DenseMemory` or `StateMemory`: such a step can be a graph of a GPU.
    has_constant_step: ClassVar[bool] = False
    reads_groups: ClassVar[bool] = False  # whether `memory_of` uses the groups of tokens
    reads_queries: bool = True  # whether the output of `attend` depends on x
    sums_to_one: bool = True  # whether the weights of a query sum to one, if it sees a key
    signed_weights: bool = False  # whether weights may be negative
    max_length: int | None = None  # most tokens it can attend to; None = unlimited
    no_graph: str = ""  # the reason if `trainer.compile` cannot make one graph of it, "it ..."
    dropout: float = 0.0  # probability of dropping a weight in training

    def __init__(self, place: Place):
        super().__init__()
        self.place = place
        self.out_dim = place.dim  # width of `Attended.out`

    @property
    def dropout_now(self) -> float:
        """The dropout to apply to the weights now; 0 outside training."""
        return self.dropout if self.training else 0.0

    @classmethod
    def label(cls, options: Mapping[str, Any]) -> str:
        """The usual name, one word, of the mechanism with these options (including `name`)."""
        return str(options["name"])

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        """The cost of the mechanism with these options (including `name`)."""
        return cls.usual_cost

    def lr_multipliers(self) -> dict[nn.Parameter, float]:
        """Factors of the learning rate, for parameters that should not learn at the model's rate.

        Adam moves every parameter by about the learning rate, whatever its size. Parameters that
        start smaller than usual should move less, in proportion.
        """
        return {}

    def memory_of(self, encoded: Encoded) -> M:
        """Make the memory of a whole sequence."""
        raise NotImplementedError

    def new_memory(self) -> M:
        """Make an empty memory, for a decoder that will `advance` token by token."""
        raise NotImplementedError

    def attend(
        self, x: Tensor, memory: M, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        """Attend to a memory. In decoder self-attention the queries are its last T tokens.

        Args:
            x: inputs of the queries, (N, T, E).
            memory: memory of N rows.
            positions: positions of the queries, (T,) or (N, T).
            need_weights: True to return the weights too; `out` is the same up to rounding.
        """
        raise NotImplementedError

    def advance(self, x: Tensor, memory: M, positions: Tensor) -> Tensor:
        """Remember the decoder's next n tokens, then attend from them.

        One call with n tokens gives the same result as n calls with one token.

        Args:
            x: inputs of the tokens, (N, n, E).
            memory: memory from `new_memory`, changed in place.
            positions: positions of the tokens, (n,) or (N, n).

        Returns: outputs (N, n, E).
        """
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
        groups: Tensor | None = None,
    ) -> Attended:
        """Attend from all positions at once.

        Args:
            x: inputs of the queries, (N, T, E).
            source: tokens to attend to, (N, S, E_source); None = x itself.
            mask, groups: of the source, as in `Encoded`.
            need_weights: True to return the weights too.

        The role decides whether attention is causal.
        """
        if source is None:
            return self.attend_itself(Encoded(x, mask, groups), need_weights)
        memory = self.memory_of(Encoded(source, mask, groups))
        return self.attend(x, memory, positions_of(x), need_weights)

    def attend_itself(self, encoded: Encoded, need_weights: bool) -> Attended:
        """Attend from all tokens of a sequence to that sequence."""
        x, memory = encoded.states, self.memory_of(encoded)
        return self.attend(x, memory, positions_of(x), need_weights)

    def attend_beams(
        self, x: Tensor, memory: M, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        """Attend from K beams per sentence to a memory stored once per sentence.

        The beams of a sentence are treated as more queries of its row.

        Args:
            x: inputs of the queries, (B * K, n, E).
            memory: memory of B rows.
            positions: positions of the queries, (n,) or (B * K, n).
            need_weights: True to return the weights too.

        Returns: out (B * K, n, E), weights (B * K, H, n, S).
        """
        N, n, _ = x.shape
        B = memory.rows
        K = N // B
        if K == 1:
            return self.attend(x, memory, positions, need_weights)
        folded = positions.repeat(K) if positions.dim() == 1 else positions.reshape(B, K * n)
        out, weights = self.attend(x.reshape(B, K * n, -1), memory, folded, need_weights)
        if weights is not None:  # (B, H, K * n, S) -> (B * K, H, n, S)
            weights = weights.unflatten(2, (K, n)).transpose(1, 2).flatten(0, 1)
        return Attended(out.reshape(N, n, -1), weights)


class TokenAttention(Attention[TokenMemory]):
    """Base of attentions that keep one entry per token. Subclasses write `remember`, `attend`."""

    folds: bool = False  # whether `attend` accepts memories shared by several beams

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """Make the tensors of these tokens that later queries will read, called streams.

        Args:
            x: tokens, (N, S, E_source).
            positions: positions of the tokens, (S,) or (N, S).

        Returns: named streams (N, S, heads, width).
        """
        raise NotImplementedError

    def memory_of(self, encoded: Encoded) -> TokenMemory:
        streams = self.remember(encoded.states, positions_of(encoded.states))
        return DenseMemory.of(streams, encoded.mask)

    def attend_at(self, x: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        """Self-attention of an encoder for tokens at any positions, which may repeat.

        Args:
            x: tokens, (N, T, E).
            mask: (N, T), True = real; None = all are real.
            positions: positions of the tokens, (N, T).

        Returns: outputs (N, T, E).
        """
        return self.attend(x, DenseMemory.of(self.remember(x, positions), mask), positions).out

    def new_memory(self) -> TokenMemory:
        return DenseMemory(self.folds)

    def advance(self, x: Tensor, memory: TokenMemory, positions: Tensor) -> Tensor:
        memory.append(self.remember(x, positions))
        return self.attend_beams(x, memory, positions).out


def positions_of(x: Tensor) -> Tensor:
    """Positions of the tokens of a whole sequence (N, T, E): 0 ... T - 1."""
    return torch.arange(x.shape[1], device=x.device)

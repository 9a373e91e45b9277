"""The interface of attention: remember what may be attended to, then attend to it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from seq2seq.attention.memory import DenseMemory, Memory, TokenMemory

M = TypeVar("M", bound=Memory)


class Role(StrEnum):
    """The place of an attention in an encoder-decoder."""

    ENCODER = "encoder"  # self-attention over the source: sees every real token
    DECODER = "decoder"  # self-attention over the target: sees the past and itself, is remembered
    CROSS = "cross"  # target queries, source keys: sees every real source token

    @property
    def description(self) -> str:
        return "cross-attention" if self is Role.CROSS else f"{self.value} self-attention"


class Position(Protocol):
    """A position scheme, as attention sees it; see `nn.positions`."""

    hook: ClassVar[str | None]
    heads: int | None  # whose scores it adds to; None = any number

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor: ...

    def bias(self, distance: Tensor, heads: int) -> Tensor | None: ...

    def relate(self, q: Tensor, distance: Tensor) -> Tensor | None: ...


class Place(NamedTuple):
    """The surroundings of one attention: its role, the widths, the scheme of positions."""

    role: Role
    dim: int  # E, width of the queries and, unless the mechanism says otherwise, of the output
    source_dim: int  # width of what is attended to
    position: Position | None = None  # only in self-attention, only if it acts inside attention

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (N, H, T, D), rotated if the position scheme rotates them."""
        return x if self.position is None else self.position.rotate(x, positions)

    def bias(self, distance: Tensor, heads: int) -> Tensor | None:
        """Biases to add to scores: (..., T, S) -> (..., H, T, S), or None."""
        return None if self.position is None else self.position.bias(distance, heads)


class Encoded(NamedTuple):
    """A whole sequence that can be attended to, such as the source as the decoder sees it."""

    states: Tensor  # (N, S, E_source)
    mask: Tensor | None = None  # (N, S) bool, True = real token; None = all are real
    # (N, S, levels), the index of the group that each token is in, at each level; None = unknown.
    # Only hierarchical context reads it.
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
    weights: Tensor | None  # (N, H, T, S), before dropout; only when asked for


class Cost(NamedTuple):
    """The cost of a mechanism, up to constant factors: a row of the zoo's table.

    Letters as in `functional`; others are options of the mechanism, named in its docstring.
    """

    time: str  # of T queries to S keys, a head
    memory: str  # elements held in training beside inputs and outputs, a head
    remembers: str  # while decoding


class Attention(nn.Module, Generic[M]):
    """One attention mechanism in one place, over the kind of memory M that it needs.

    The same two verbs serve training (remember and attend the same tensor), cross-attention
    (remember the source once, attend at every step) and decoding (remember one token, attend to
    all). A mechanism that keeps one entry a token derives from `TokenAttention` and writes less.
    """

    roles: ClassVar[frozenset[Role]] = frozenset(Role)  # where it is defined
    role_refusals: ClassVar[Mapping[Role, str]] = {}  # why it is not defined elsewhere: "it ..."
    supports: ClassVar[frozenset[str]] = frozenset()  # hooks of position schemes that it obeys
    position_refusals: ClassVar[Mapping[str, str]] = {}  # why it obeys no other hook: "it ..."
    usual_cost: ClassVar[Cost]  # whatever the options; else see `cost`
    absent_options: ClassVar[Mapping[str, str]] = {}  # options of others -> why it has none
    shows_weights: ClassVar[bool] = True  # whether it can draw a (T, S) map
    no_weights: ClassVar[str] = ""  # if not: why, "every query ..."
    can_merge: ClassVar[bool] = True  # in a decoder: whether rows of several lengths share a batch
    reads_groups: ClassVar[bool] = False  # whether `memory_of` uses the groups of tokens
    reads_queries: bool = True  # whether the answer depends on x in `attend`
    sums_to_one: bool = True  # whether weights of a query that sees a key do
    max_length: int | None = None  # tokens it can attend to; None = unlimited
    no_graph: str = ""  # why `trainer.compile` cannot make one graph for all lengths: "it ..."
    dropout: float = 0.0  # on the weights

    def __init__(self, place: Place):
        super().__init__()
        self.place = place
        self.out_dim = place.dim  # width of `Attended.out`

    @property
    def dropout_now(self) -> float:
        """The dropout of the weights; 0 outside training."""
        return self.dropout if self.training else 0.0

    @classmethod
    def label(cls, options: Mapping[str, Any]) -> str:
        """The usual name of the mechanism with these options, `name` included: one word."""
        return str(options["name"])

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        """Its cost with these options, `name` included."""
        return cls.usual_cost

    def lr_multipliers(self) -> dict[nn.Parameter, float]:
        """Learning-rate factors of the parameters that should not learn at the model's rate.

        Adam moves every parameter by about the learning rate, whatever its size. One that starts
        smaller than usual should move less in proportion.
        """
        return {}

    def memory_of(self, encoded: Encoded) -> M:
        """The memory of a whole sequence."""
        raise NotImplementedError

    def new_memory(self) -> M:
        """An empty memory, for a decoder that will `advance` token by token."""
        raise NotImplementedError

    def attend(
        self, x: Tensor, memory: M, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        """Answer queries from a memory; in decoder self-attention, queries are its last T tokens.

        Args:
            x: (N, T, E).
            memory: memory of N rows.
            positions: positions of the queries, (T,) or (N, T).
            need_weights: whether to return the weights too, with the same `out` up to rounding.
        """
        raise NotImplementedError

    def advance(self, x: Tensor, memory: M, positions: Tensor) -> Tensor:
        """Remember the decoder's next n tokens, then attend from them: (N, n, E).

        n calls of one token equal one call of n.

        Args:
            x: (N, n, E).
            memory: memory from `new_memory`, changed in place.
            positions: (n,) or (N, n).
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
        """All positions at once: x (N, T, E) attends to `source` (N, S, E_source), or to itself.

        mask and groups as in `Encoded`. Causality follows from the role.
        """
        memory = self.memory_of(Encoded(x if source is None else source, mask, groups))
        return self.attend(x, memory, positions_of(x), need_weights)

    def attend_beams(
        self, x: Tensor, memory: M, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        """Attend from K beams per sentence to a memory stored once per sentence: beams are queries.

        Args:
            x: (B * K, n, E).   memory: of B rows.   positions: (n,) or (B * K, n).

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
    """An attention that keeps one entry a token. It writes `remember` and `attend`."""

    folds: bool = False  # whether `attend` takes, and gains by, memories of several beams

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """Streams of these tokens that later queries will read.

        Args:
            x: (N, S, E_source).
            positions: positions of the tokens, (S,) or (N, S).

        Returns: named streams (N, S, heads, width).
        """
        raise NotImplementedError

    def memory_of(self, encoded: Encoded) -> TokenMemory:
        streams = self.remember(encoded.states, positions_of(encoded.states))
        return DenseMemory.of(streams, encoded.mask)

    def attend_at(self, x: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        """Self-attention of an encoder whose tokens (N, T, E) stand at any positions (N, T), also
        several at one: (N, T, E).
        """
        return self.attend(x, DenseMemory.of(self.remember(x, positions), mask), positions).out

    def new_memory(self) -> TokenMemory:
        return DenseMemory(self.folds)

    def advance(self, x: Tensor, memory: TokenMemory, positions: Tensor) -> Tensor:
        memory.append(self.remember(x, positions))
        return self.attend_beams(x, memory, positions).out


def positions_of(x: Tensor) -> Tensor:
    """The positions of the tokens of a whole sequence (N, T, E): 0 ... T - 1."""
    return torch.arange(x.shape[1], device=x.device)

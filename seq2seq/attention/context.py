"""Context attention: keys or queries that depend on the mean of the tokens around them."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Cost, Encoded, Place, Role, positions_of
from seq2seq.attention.heads import join_heads, projection, split_heads
from seq2seq.attention.memory import DenseMemory, JointMemory, StateMemory, TokenMemory
from seq2seq.attention.multihead import NO_SCORES, MultiHead
from seq2seq.functional.context import (
    PrefixSums,
    gate,
    group_means,
    modulate,
    prefix_means,
    row_means,
)


class PooledContext(MultiHead):
    """Base of global and hierarchical context, which use means over the tokens.

    In the decoder the mean is over each token's own prefix, whose sum and count are remembered;
    elsewhere it is over all real tokens. Subclasses write `change_keys`, which applies the means to
    the keys.
    """

    absent_options = NO_SCORES
    keeps_means = False  # whether queries read the means too

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        cost = super().cost(options)
        return cost._replace(remembers=f"{cost.remembers}, a sum (E) and a count a sentence")

    def change_keys(self, k: Tensor, means: Tensor, encoded: Encoded) -> Tensor:
        """Change the keys (N, S, G D) of tokens by the means of their rows or prefixes."""
        raise NotImplementedError

    def memory_of(self, encoded: Encoded) -> JointMemory:
        x, mask, _ = encoded
        state: dict[str, Tensor] = {}
        if self.place.role is Role.DECODER:
            means, sums = prefix_means(x, mask)
            state = sums._asdict()
        else:
            means = row_means(x, mask)
        means = means.to(x.dtype)
        if self.keeps_means:
            state["means"] = means
        keys = self.change_keys(self.k(x), means, encoded)
        streams = self.streams(keys, self.v(x), positions_of(x))
        return JointMemory(DenseMemory.of(streams, mask), StateMemory(**state))

    def new_memory(self) -> JointMemory:
        return JointMemory(DenseMemory(self.folds), StateMemory())

    def advance(self, x: Tensor, memory: TokenMemory, positions: Tensor) -> Tensor:
        assert isinstance(memory, JointMemory)
        state = memory.context.state
        before = PrefixSums(state["total"], state["tokens"]) if state else None
        means, sums = prefix_means(x, before=before)
        means = means.to(x.dtype)
        state.update(sums._asdict())
        keys = self.change_keys(self.k(x), means, Encoded(x))
        memory.append(self.streams(keys, self.v(x), positions))
        # These means are for the new queries only. Beams count as queries.
        means = means.reshape(memory.rows, -1, means.shape[-1])
        seen = JointMemory(memory.tokens, StateMemory(means=means))
        return self.attend_beams(x, seen, positions).out


class GlobalContext(PooledContext):
    """Attention whose keys or queries are changed by the mean of all tokens.

        keys:      k_j (1 + c_j),  c_j = Wc mean(x)
        additive:  q_i + Wc mean(x)
        gated:     (1 - l_i) q_i + l_i Uq mean(x),  l_i = sigmoid(q_i . a + Uq mean(x) . b),
                   and the same for the keys

    The mean is over the real tokens that are attended to; in the decoder, over the token's own
    prefix. Positions rotate queries and keys after this change.

    Args:
        place: surroundings of the attention.
        num_heads, num_kv_heads, kernel, bias, dropout: options of `MultiHead`.
        form: one of the three formulas above. Wc starts at zero, so that the first two start as
            multi-head attention; gates start at 1/2.

    Raises: ConfigError in the same cases as `MultiHead`.
    Source: `gated` is from Yang et al. 2019, arXiv:1902.05766; `additive` follows a simpler form in
    their published code; `keys`, the default, is ours.
    """

    def __init__(
        self, place: Place, *, form: Literal["keys", "additive", "gated"] = "keys", **options: Any
    ):
        super().__init__(place, **options)
        inputs, width = place.source_dim, self.width
        self.of_keys: nn.Module | None = None
        self.of_queries: nn.Module | None = None
        if form == "keys":
            self.of_keys = ContextScale(inputs, self.num_kv_heads * width)
        elif form == "additive":
            # In the keys, a term that is the same for all of them would cancel in the softmax.
            self.of_queries = ContextShift(inputs, self.num_heads * width)
        else:
            self.of_keys = ContextGate(inputs, self.num_kv_heads, width)
            self.of_queries = ContextGate(inputs, self.num_heads, width)
        self.keeps_means = self.of_queries is not None

    def change_keys(self, k: Tensor, means: Tensor, encoded: Encoded) -> Tensor:
        return k if self.of_keys is None else self.of_keys(k, means)

    def attend_heads(
        self, q: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        if self.of_queries is not None:
            assert isinstance(memory, JointMemory)
            # The decoder has a mean for each of the last tokens; elsewhere all queries share one.
            means = memory.context.state["means"][:, -q.shape[2] :]
            q = split_heads(self.of_queries(join_heads(q), means), self.num_heads)
        return super().attend_heads(q, memory, positions, need_weights)


class HierarchicalContext(PooledContext):
    """Attention whose keys are scaled by the means of their word, their sentence and the paragraph.

        k_j (1 + c_j),  c_j = sum over levels l of W_l mean{x_t : t real, in the group of j at l}

    If the groups of a level are not known, each token is its own word, or the whole row is one
    sentence or paragraph. The decoder does not know groups, and its means are over tokens up to the
    token itself.

    Args:
        place: surroundings of the attention.
        num_heads, num_kv_heads, kernel, bias, dropout: options of `MultiHead`.

    Raises: ConfigError in the same cases as `MultiHead`.
    """

    LEVELS = ("word", "sentence", "paragraph")
    reads_groups = True

    def __init__(self, place: Place, **options: Any):
        super().__init__(place, **options)
        outputs = self.num_kv_heads * self.width
        self.levels = nn.ModuleDict(
            {name: zero_linear(place.source_dim, outputs) for name in self.LEVELS}
        )

    def change_keys(self, k: Tensor, means: Tensor, encoded: Encoded) -> Tensor:
        x, mask, groups = encoded
        pooled = [x, means, means]
        if groups is not None:
            if groups.shape[-1] > len(pooled):
                raise ValueError(
                    f"groups have {groups.shape[-1]} levels; there are {len(pooled)}: "
                    f"{', '.join(self.LEVELS)}"
                )
            causal = self.place.role is Role.DECODER
            for level, members in enumerate(groups.unbind(-1)):
                pooled[level] = group_means(x, members, mask, causal).to(x.dtype)
        contexts = [of_level(m) for of_level, m in zip(self.levels.values(), pooled, strict=True)]
        return modulate(k, contexts[0] + contexts[1] + contexts[2])


class ContextScale(nn.Module):
    """x (1 + W mean), where W starts at zero."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.context = zero_linear(inputs, outputs)

    def forward(self, x: Tensor, means: Tensor) -> Tensor:
        """x (N, T, outputs), means (N, T or 1, inputs) -> (N, T, outputs)."""
        return modulate(x, self.context(means))


class ContextShift(ContextScale):
    """x + W mean, where W starts at zero."""

    def forward(self, x: Tensor, means: Tensor) -> Tensor:
        """Shapes as in `ContextScale.forward`."""
        return torch.add(x, self.context(means))


class ContextGate(nn.Module):
    """(1 - l) x + l U mean, with l = sigmoid(x . a + U mean . b) for each head; l starts at 1/2."""

    def __init__(self, inputs: int, heads: int, width: int):
        super().__init__()
        self.heads = heads
        self.context = projection(inputs, heads * width, bias=False, gain=0.5**0.5)
        self.a = nn.Parameter(torch.zeros(heads, width))
        self.b = nn.Parameter(torch.zeros(heads, width))

    def forward(self, x: Tensor, means: Tensor) -> Tensor:
        """Shapes as in `ContextScale.forward`."""
        x, c = (y.unflatten(-1, (self.heads, -1)) for y in (x, self.context(means)))
        return gate(x, c, self.a, self.b).flatten(2)


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear map without bias whose weights start at zero."""
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.zeros_(linear.weight)
    return linear

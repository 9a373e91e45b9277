"""Base of local attentions, with heads and a memory of the last tokens."""

from functools import partial

from torch import Tensor

from seq2seq.attention.base import Encoded, Role, positions_of
from seq2seq.attention.heads import HeadedAttention
from seq2seq.attention.ring import RingMemory
from seq2seq.functional.local import SoftmaxOptions


class WindowedAttention(HeadedAttention[RingMemory]):
    """Base of self-attention to keys near the query, with H heads and scaled dot products.

    Subclasses write `new_memory`, which decides how many tokens are remembered, and `attend`.
    """

    roles = frozenset({Role.ENCODER, Role.DECODER})
    role_refusals = {
        Role.CROSS: "it reads the keys near a query, and a position in the target says nothing "
        "about one in the source"
    }
    supports = frozenset({"rotate", "bias"})
    can_merge = False  # all rows of a `RingMemory` have the same length
    no_graph = "walks through windows, whose number depends on the length"
    num_global = 0  # tokens at the beginning that every query reads

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """Make the streams k and v, (N, H, S, D), that later queries will read.

        Args:
            x: tokens, (N, S, E).
            positions: positions of the tokens, (S,) or (N, S).
        """
        return {"k": self.heads_at(self.k(x), positions), "v": self.heads(self.v(x))}

    def memory_of(self, encoded: Encoded) -> RingMemory:
        streams = self.remember(encoded.states, positions_of(encoded.states))
        return RingMemory.of(streams, encoded.mask, self.num_global)

    def advance(self, x: Tensor, memory: RingMemory, positions: Tensor) -> Tensor:
        return self.attend(x, memory.append(self.remember(x, positions)), positions).out

    def softmax_options(self, need_weights: bool) -> SoftmaxOptions:
        bias = partial(self.place.bias, heads=self.num_heads)
        return SoftmaxOptions(self.scale, bias, self.dropout_now, need_weights)

"""What local attentions share: heads, and a memory of the last tokens."""

from functools import partial

from torch import Tensor

from seq2seq.attention.base import Attended, Encoded, Role, positions_of
from seq2seq.attention.heads import HeadedAttention
from seq2seq.attention.ring import RingMemory, Stretch
from seq2seq.functional.local import Bias, Keys


class WindowedAttention(HeadedAttention[RingMemory]):
    """Self-attention by scaled dot products of H heads, to keys near the query.

    A mechanism writes `new_memory`, which says how many tokens its queries look back, and `attend`.
    """

    roles = frozenset({Role.ENCODER, Role.DECODER})
    role_refusals = {
        Role.CROSS: "it reads the keys near a query, and a position in the target says nothing "
        "about one in the source"
    }
    supports = frozenset({"rotate", "bias"})
    num_global = 0  # tokens at the beginning that every query reads

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """What later queries need of tokens x (N, S, E), at positions (S,) or (N, S): streams k
        and v, (N, S, H, D).
        """
        k, v = self.turned(self.k(x), positions), self.heads(self.v(x))
        return {"k": k.transpose(1, 2), "v": v.transpose(1, 2)}

    def memory_of(self, encoded: Encoded) -> RingMemory:
        streams = self.remember(encoded.states, positions_of(encoded.states))
        return RingMemory.of(streams, encoded.mask, self.num_global)

    def advance(
        self, x: Tensor, memory: RingMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        seen = memory.append(self.remember(x, positions))
        return self.attend(x, seen, positions, need_weights)

    @property
    def _bias(self) -> Bias | None:
        """What the position scheme adds to the scores at a distance."""
        position = self.place.position
        return None if position is None else partial(position.bias, heads=self.num_heads)


def keys_of(seen: Stretch, suffix: str = "") -> Keys:
    """The streams k and v, or with a suffix (`k_global`), as the functions take them."""
    k, v = (seen.streams[name + suffix].transpose(1, 2) for name in "kv")
    return Keys(k, v, seen.mask, seen.start)

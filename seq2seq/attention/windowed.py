"""What local attentions share: heads, and a memory of the last tokens."""

from functools import partial

from torch import Tensor, nn

from seq2seq.attention.base import Attended, Attention, Encoded, Place, Role, positions_of
from seq2seq.attention.heads import (
    check_heads,
    check_position_of_heads,
    projection,
    split_heads,
)
from seq2seq.attention.ring import RingMemory, Stretch
from seq2seq.functional.local import Bias, Keys
from seq2seq.tables import check_range


class WindowedAttention(Attention[RingMemory]):
    """Self-attention by scaled dot products of H heads, to keys near the query.

    A mechanism writes `new_memory`, which says how many tokens its queries look back, and `attend`.

    Args:
        place, num_heads, bias, dropout: as in the mechanisms.

    Raises: ConfigError for heads that do not divide, or that the positions refuse, and for a
    dropout out of range.
    """

    roles = frozenset({Role.ENCODER, Role.DECODER})
    role_refusals = {
        Role.CROSS: "it reads the keys near a query, and a position in the target says nothing "
        "about one in the source"
    }
    supports = frozenset({"rotate", "bias"})
    num_global = 0  # tokens at the beginning that every query reads

    def __init__(self, place: Place, num_heads: int, bias: bool, dropout: float):
        super().__init__(place)
        check_range("attn.dropout", dropout, 0, 1)
        check_heads(num_heads, num_heads, place.dim)
        check_position_of_heads(place, num_heads, place.dim // num_heads)
        self.num_heads = num_heads
        self.dropout = dropout
        self.causal = place.role is Role.DECODER
        self.scale = (place.dim // num_heads) ** -0.5
        self.q = projection(place.dim, place.dim, bias, gain=0.5**0.5)
        self.k = projection(place.dim, place.dim, bias, gain=0.5**0.5)
        self.v = projection(place.dim, place.dim, bias, gain=0.5**0.5)
        self.out = projection(place.dim, place.dim, bias)

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """What later queries need of tokens x (N, S, E), at positions (S,) or (N, S): streams k
        and v, (N, S, H, D).
        """
        k, v = self._turned(self.k, x, positions), split_heads(self.v(x), self.num_heads)
        return {"k": k.transpose(1, 2), "v": v.transpose(1, 2)}

    def memory_of(self, encoded: Encoded) -> RingMemory:
        streams = self.remember(encoded.states, positions_of(encoded.states))
        return RingMemory.of(streams, encoded.mask, self.num_global)

    def advance(
        self, x: Tensor, memory: RingMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        seen = memory.append(self.remember(x, positions))
        return self.attend(x, seen, positions, need_weights)

    def _turned(self, project: nn.Module, x: Tensor, positions: Tensor) -> Tensor:
        """The heads of queries or keys, (N, H, T, D), rotated if the position scheme does so."""
        heads = split_heads(project(x), self.num_heads)
        if self.place.position is None:
            return heads
        return self.place.position.rotate(heads, positions)

    @property
    def _bias(self) -> Bias | None:
        """What the position scheme adds to the scores at a distance."""
        position = self.place.position
        return None if position is None else partial(position.bias, heads=self.num_heads)

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0


def keys_of(seen: Stretch, suffix: str = "") -> Keys:
    """The streams k and v, or with a suffix (`k_global`), as the functions take them."""
    k, v = (seen.streams[name + suffix].transpose(1, 2) for name in "kv")
    return Keys(k, v, seen.mask, seen.start)

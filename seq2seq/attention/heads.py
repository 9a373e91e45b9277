"""Base of mechanisms with heads: projections into the heads and out of them, and checks."""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.attention.base import Attention, M, Place
from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.functional.positions import distances


class HeadedAttention(Attention[M]):
    """Base of attentions with H heads of the same width: projections, and rotation by positions.

    Args:
        place: surroundings of the attention.
        num_heads: H; divides the width.
        bias: whether the projections have biases.
        dropout: probability of dropping a weight in training.

    Raises: ConfigError if `num_heads` does not divide the width or does not fit the position
    scheme, or if the dropout is out of range.
    """

    # Factor of the initial queries and keys, and of their learning rate.
    size: ClassVar[float] = 1.0

    def __init__(self, place: Place, *, num_heads: int, bias: bool = False, dropout: float = 0.0):
        super().__init__(place)
        check_range("attn.dropout", dropout, 0, 1)
        check_heads(num_heads, num_heads, place.dim)
        self.num_heads, self.dropout, self.width = num_heads, dropout, place.dim // num_heads
        check_position(place, num_heads, self.width)
        self.scale = self.width**-0.5
        self.build_projections(bias)

    def build_projections(self, bias: bool) -> None:
        """Make the linear maps into the heads, `q`, `k` and `v`, and out of them, `out`."""
        dim, source_dim = self.place.dim, self.place.source_dim
        self.q = projection(dim, dim, bias, gain=0.5**0.5 * self.size)
        self.k = projection(source_dim, dim, bias, gain=0.5**0.5 * self.size)
        self.v = projection(source_dim, dim, bias, gain=0.5**0.5)
        self.out = projection(dim, dim, bias)

    def lr_multipliers(self) -> dict[nn.Parameter, float]:
        layers = (self.q, self.k) if self.size != 1 else ()
        return {p: self.size for layer in layers for p in layer.parameters()}

    def heads(self, x: Tensor) -> Tensor:
        """(N, T, H D) -> (N, H, T, D)."""
        return split_heads(x, self.num_heads)

    def project_out(self, x: Tensor) -> Tensor:
        """Join and project the outputs of the heads: (N, H, T, D) -> (N, T, E)."""
        out: Tensor = self.out(join_heads(x))
        return out

    def heads_at(self, x: Tensor, positions: Tensor) -> Tensor:
        """Split queries or keys into heads, and rotate them if the position scheme does that."""
        return self.place.rotate(self.heads(x), positions)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, T, heads * D) -> (N, heads, T, D), a view."""
    return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(N, heads, T, D) -> (N, T, heads * D)."""
    return x.transpose(1, 2).flatten(2)


def projection(inputs: int, outputs: int, bias: bool, gain: float = 1.0) -> nn.Linear:
    """A linear map with Xavier weights and zero biases. Use a gain of 1 / sqrt(2) for queries, keys
    and values.
    """
    linear = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(linear.weight, gain)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def project_together(x: Tensor, *layers: nn.Module) -> Sequence[Tensor]:
    """Apply several linear layers to the same input, as one product in a compiled layer, where
    joining the weights costs no more than casting them.
    """
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    if not torch.compiler.is_compiling() or len(linear) < len(layers):
        return [layer(x) for layer in layers]
    weight = torch.cat([layer.weight for layer in linear])
    bias = None if linear[0].bias is None else torch.cat([layer.bias for layer in linear])
    return torch.split(F.linear(x, weight, bias), [layer.out_features for layer in linear], -1)


def default_kv_heads(num_heads: int) -> int:
    """The default number of key/value heads of grouped-query attention."""
    max_groups = min(max(2, num_heads // 4), max(1, num_heads - 1))
    return next(g for g in range(max_groups, 0, -1) if num_heads % g == 0)


def check_heads(num_heads: int, groups: int, dim: int) -> None:
    if num_heads < 1 or dim % num_heads:
        near = max(1, num_heads) * max(1, round(dim / max(1, num_heads)))
        divisor = next(h for h in range(min(max(1, num_heads), dim), 0, -1) if dim % h == 0)
        raise ConfigError(
            f"num_heads={num_heads} does not divide dim={dim}. Choose dim={near}, "
            f"or num_heads={divisor} ({training_command()} model.num_heads={divisor})"
        )
    if groups < 1 or num_heads % groups:
        divisors = ", ".join(str(g) for g in range(1, num_heads + 1) if num_heads % g == 0)
        raise ConfigError(
            f"num_kv_heads={groups} does not divide num_heads={num_heads}. "
            f"Choose one of {divisors} ({training_command()} attn.num_kv_heads=...)"
        )


def position_bias(
    place: Place, q: Tensor, positions: Tensor, keys: int, beams: int = 1
) -> Tensor | None:
    """Terms that the position scheme adds to scores.

    Args:
        place: surroundings of the attention, with its position scheme.
        q: queries after projection and before rotation, (N, H, T, D).
        positions: positions of the queries, (T,) or (N, T).
        keys: number of keys S.
        beams: number of keys at each position.

    Returns: (..., H, T, S), or None.
    """
    position = place.position
    if position is None or position.hook not in ("bias", "relate"):
        return None  # before making T x S distances, which may be the largest tensor
    distance = distances(positions, keys // beams)
    if position.hook == "bias":
        bias = position.bias(distance, q.shape[1])
    else:
        bias = position.relate(q, distance)
    return bias if bias is None or beams == 1 else bias.repeat_interleave(beams, dim=-1)


def check_position(place: Place, heads: int, width: int) -> None:
    """Check the position scheme. Raises: ConfigError if it does not fit these heads and width."""
    position = place.position
    if position is None:
        return
    if position.hook == "rotate" and width % 2:
        raise ConfigError(
            f"position=rope needs an even head width, not {width}: halve model.num_heads"
        )
    if position.heads not in (None, heads):
        raise ConfigError(
            f"this position scheme adds to the scores of {position.heads} heads, but the "
            f"{place.role.description} has num_heads={heads}. Take "
            f"position.num_heads={heads} and as many heads in both self-attentions, or "
            "position=alibi, which fits any number"
        )

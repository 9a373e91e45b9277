"""Position schemes: how a model that sees sets of tokens learns their order.

A scheme acts at one of four hooks. `embed` adds a vector to each token at the bottom of a stack;
`rotate` turns queries and keys inside every self-attention; `bias` adds to its scores by distance,
`relate` by distance and query. In cross-attention source and target positions have no common axis,
so a scheme that acts inside attention is skipped there.
"""

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table, check_range
from seq2seq.functional.positions import (
    alibi,
    bucket_starts,
    distance_scores,
    rotate,
    sinusoid,
    t5_buckets,
)


class PositionScheme(nn.Module):
    """Tokens without an order: the base of all schemes, and `position=none` itself.

    Every stack of a model has its own, whose parameters all layers of the stack share.

    Args:
        causal: is it for a decoder, whose queries see no later key?
        dim: E.

    Attributes:
        heads: number of heads that it adds to the scores of; None = any.
        max_length: positions that it has; None = unlimited.
    """

    hook: ClassVar[str | None] = None  # "embed", "rotate", "bias", "relate" or None

    def __init__(self, causal: bool, dim: int):
        super().__init__()
        self.causal = causal
        self.heads: int | None = None
        self.max_length: int | None = None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Token vectors (N, T, E) with what the scheme adds at their positions (T,) or (N, T)."""
        return x

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (N, H, T, D), turned by their positions (T,) or (N, T)."""
        return x

    def bias(self, distance: Tensor, heads: int) -> Tensor | None:
        """Biases of scores, by the distance j - i of key j from query i: (..., T, S) -> (...,
        H, T, S).
        """
        return None

    def relate(self, q: Tensor, distance: Tensor) -> Tensor | None:
        """Terms for the scores of queries (N, H, T, D) with keys at distances j - i between -S and
        S, (T, S) or (N, T, S): (N, H, T, S). Affine in the queries.
        """
        return None


class Positions(NamedTuple):
    """The schemes of the two stacks of a model."""

    encoder: PositionScheme
    decoder: PositionScheme


class Sinusoidal(PositionScheme):
    """A fixed vector of sines and cosines for each position. Vaswani et al. 2017,
    arXiv:1706.03762.

    Args:
        causal, dim: as for every scheme.
        endpoint: is the longest wavelength exactly 2 pi * 10,000, as in tensor2tensor and Marian?
    """

    hook = "embed"

    def __init__(self, causal: bool, dim: int, *, endpoint: bool = False):
        super().__init__(causal, dim)
        self.endpoint = endpoint

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + sinusoid(positions, x.shape[-1], self.endpoint).to(x.dtype)


class Learned(PositionScheme):
    """A vector for each position, learnt like a word's. Gehring et al. 2017,
    arXiv:1705.03122.

    Args:
        causal, dim: as for every scheme. Vectors are drawn from N(0, 1/E).
        length: positions in the table; no sentence may be longer, and decoding stops there.
    """

    hook = "embed"

    def __init__(self, causal: bool, dim: int, *, length: int):
        super().__init__(causal, dim)
        check_range("position.length", length, 1)
        self.max_length = length
        self.table = nn.Embedding(length, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return torch.add(x, self.table(positions))


class Rotary(PositionScheme):
    """Queries and keys are rotated, so that a score depends on the distance. Su et al. 2021,
    arXiv:2104.09864.

    Args:
        causal, dim: as for every scheme.
        base: wavelengths run from 2 pi to 2 pi * base tokens.
    """

    hook = "rotate"

    def __init__(self, causal: bool, dim: int, *, base: float = 10_000.0):
        super().__init__(causal, dim)
        self.base = base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotate(x, positions, self.base)


class ALiBi(PositionScheme):
    """A score falls in proportion to the distance of its key, at a different rate in each head.
    Press et al. 2022, arXiv:2108.12409.

    Symmetric in the encoder.
    """

    hook = "bias"

    def bias(self, distance: Tensor, heads: int) -> Tensor:
        return alibi(distance, heads)


class T5Bias(PositionScheme):
    """Each head adds a learnt bias for each class of distances; near ones have a class each. Raffel
    et al. 2020, arXiv:1910.10683.

    Args:
        causal: a decoder has all classes for the past, an encoder half of them for each side.
        dim: E; the biases are drawn from N(0, 1/E).
        num_heads: H of both self-attentions.
        num_buckets: classes, even.
        max_distance: keys further away are all in one class.
    """

    hook = "bias"
    starts: Tensor  # of the classes

    def __init__(
        self,
        causal: bool,
        dim: int,
        *,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
    ):
        super().__init__(causal, dim)
        check_range("position.num_heads", num_heads, 1)
        check_range("position.num_buckets", num_buckets, 4)
        if num_buckets % 2:
            raise ConfigError(f"position.num_buckets={num_buckets} should be even")
        check_range("position.max_distance", max_distance, num_buckets)
        self.heads, self.max_distance = num_heads, max_distance
        self.table = nn.Embedding(num_buckets, num_heads)
        starts = bucket_starts(num_buckets if causal else num_buckets // 2, max_distance)
        self.register_buffer("starts", torch.tensor(starts), persistent=False)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def bias(self, distance: Tensor, heads: int) -> Tensor:
        classes = t5_buckets(distance, self.starts, both_sides=not self.causal)
        return torch.movedim(self.table(classes), -1, -3)  # (..., T, S, H) -> (..., H, T, S)


class TransformerXL(PositionScheme):
    """Each query asks for distances as it asks for keys: the relative positions of Transformer-XL.

        score_ij = score(q_i, k_j) + (q_i + v) . Wr sinusoid(j - i) / sqrt(D)

    ALiBi and T5 weigh a distance alike whatever the query; here a token may look as far back as its
    content says. All layers of a stack share Wr, which the paper has for each, and v. The paper's
    u, by which every query prefers some keys, is the bias of queries that `attn.bias=true` adds,
    among others.

    Args:
        causal, dim: as for every scheme.
        num_heads: H of both self-attentions.

    Source: Dai et al. 2019, arXiv:1901.02860.
    """

    hook = "relate"

    def __init__(self, causal: bool, dim: int, *, num_heads: int):
        super().__init__(causal, dim)
        check_range("position.num_heads", num_heads, 1)
        self.heads = num_heads
        self.distance_map = nn.Parameter(torch.empty(dim, dim))  # Wr
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, dim // num_heads))  # v
        nn.init.xavier_uniform_(self.distance_map, 0.5**0.5)

    def relate(self, q: Tensor, distance: Tensor) -> Tensor:
        S = distance.shape[-1]
        every = torch.arange(1 - S, 1 if self.causal else S, device=q.device)
        waves = sinusoid(every, len(self.distance_map)).to(self.distance_map.dtype)
        keys = F.linear(waves, self.distance_map)
        keys = keys.unflatten(-1, self.distance_bias.shape).transpose(0, 1)  # (H, L, D)
        q = (q + self.distance_bias[:, None]) * q.shape[-1] ** -0.5
        return distance_scores(q, keys, distance)


POSITIONS: Table[Any] = Table(
    "position",
    {
        "sinusoidal": Sinusoidal,
        "learned": Learned,
        "rope": Rotary,
        "alibi": ALiBi,
        "t5": T5Bias,
        "transformer_xl": TransformerXL,
        "none": PositionScheme,
    },
)

"""Position schemes, which tell a model the order of its tokens.

A scheme acts at one of four hooks. `embed` adds a vector to each token at the bottom of a stack.
Inside every self-attention, `rotate` rotates queries and keys, `bias` adds a term to the scores
that depends on the distance, and `relate` one that depends on the distance and the query. In
cross-attention, source and target positions have no common axis, so these three are skipped there.
"""

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable
from seq2seq.base.registry import check_range
from seq2seq.functional.positions import (
    alibi,
    bucket_starts,
    distance_scores,
    rotate,
    sinusoid,
    t5_buckets,
)


class PositionScheme(nn.Module):
    """The base of all schemes, which is also `position=none`: tokens without an order.

    Every stack of a model has its own scheme, whose parameters all layers of the stack share.

    Args:
        causal: True for a decoder, whose queries see no later keys.
        dim: width of the token vectors, E.

    Attributes:
        heads: number of heads whose scores it changes; None = any number.
        max_length: number of positions that it has; None = unlimited.
    """

    hook: ClassVar[str | None] = None  # "embed", "rotate", "bias", "relate" or None

    def __init__(self, causal: bool, dim: int):
        super().__init__()
        self.causal = causal
        self.heads: int | None = None
        self.max_length: int | None = None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Token vectors (N, T, E) with position vectors added; positions are (T,) or (N, T)."""
        return x

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (N, H, T, D), rotated by their positions (T,) or (N, T)."""
        return x

    def bias(self, distance: Tensor, heads: int) -> Tensor | None:
        """Biases of scores for distances j - i of keys j from queries i:
        (..., T, S) -> (..., H, T, S).
        """
        return None

    def relate(self, q: Tensor, distance: Tensor) -> Tensor | None:
        """Terms (N, H, T, S) to add to scores, which are affine in the queries.

        Args:
            q: queries (N, H, T, D).
            distance: distances j - i of keys j from queries i, between -S and S; (T, S) or
                (N, T, S).
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
        endpoint: True to make the longest wavelength exactly 2 pi * 10,000, as in tensor2tensor and
            Marian.
        offset: number of the first position, 2 in fairseq.
    """

    hook = "embed"

    def __init__(self, causal: bool, dim: int, *, endpoint: bool = False, offset: int = 0):
        super().__init__(causal, dim)
        check_range("position.offset", offset, 0)
        self.endpoint, self.offset = endpoint, offset

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + sinusoid(positions + self.offset, x.shape[-1], self.endpoint).to(x.dtype)


class Learned(PositionScheme):
    """A learnt vector for each position, as for words. Gehring et al. 2017, arXiv:1705.03122.

    Args:
        causal, dim: as for every scheme. Vectors are drawn from N(0, 1/E).
        length: number of positions; no sentence may be longer, and decoding stops there.
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
        base: ratio of the longest wavelength, 2 pi * base tokens, to the shortest, 2 pi tokens.
    """

    hook = "rotate"

    def __init__(self, causal: bool, dim: int, *, base: float = 10_000.0):
        super().__init__(causal, dim)
        self.base = base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotate(x, positions, self.base)


class ALiBi(PositionScheme):
    """Scores fall in proportion to the distance of the key, at a different rate in each head. Press
    et al. 2022, arXiv:2108.12409.

    In the encoder, keys before and after the query are treated alike.
    """

    hook = "bias"

    def bias(self, distance: Tensor, heads: int) -> Tensor:
        return alibi(distance, heads)


class T5Bias(PositionScheme):
    """Each head adds a learnt bias for each class of distances; each short distance is a class of
    its own. Raffel et al. 2020, arXiv:1910.10683.

    Args:
        causal: True for a decoder, in which all classes are for the past; in an encoder, each side
            has half of them.
        dim: width of the token vectors, E; the biases are drawn from N(0, 1/E).
        num_heads: number of heads H of both self-attentions.
        num_buckets: number of classes, even.
        max_distance: distance beyond which all keys are in one class.
    """

    hook = "bias"
    starts: Tensor  # smallest distance of each class but the first

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
    """Relative positions of Transformer-XL: a query scores distances as it scores keys.

        score_ij = score(q_i, k_j) + (q_i + v) . Wr sinusoid(j - i) / sqrt(D)

    With ALiBi and T5, the effect of a distance does not depend on the query; here it does, so a
    token may look as far back as its content requires. All layers of a stack share Wr and v; in the
    paper each layer has its own Wr, and all layers share v and u. Here u, which makes every query
    prefer some keys, is the bias of queries, one of the biases that `attn.bias=true` adds: each
    layer has its own, and it is added to the query in both products.

    Args:
        causal, dim: as for every scheme.
        num_heads: number of heads H of both self-attentions.

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


POSITIONS: PluginTable[Any] = PluginTable(
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
    lambda entry: isinstance(entry, type) and issubclass(entry, PositionScheme),
    "a class that derives from seq2seq.models.layers.positions.PositionScheme",
)

"""Biases of scores by distance: what ALiBi and T5 add instead of position vectors."""

from functools import cache

import torch
from torch import Tensor


def distances(positions: Tensor, keys: int) -> Tensor:
    """How far each key stands behind its query, negative for one before it.

    Args:
        positions: of the queries, (T,) or (N, T).
        keys: S; they stand at 0 ... S - 1.

    Returns: j - i, (T, S) or (N, T, S).
    """
    return torch.arange(keys, device=positions.device) - positions[..., None]


def alibi_slopes(heads: int) -> list[float]:
    """The slope of each head: 2^(-8h/H), h = 1 ... H.

    Where H is no power of two, the slopes of the next lower power n come first, then every other
    one of those for 2n, so that the new ones lie between the old.

    Source: Press et al. 2022, arXiv:2108.12409.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return slopes + between[: heads - power]


def alibi(positions: Tensor, keys: int, heads: int) -> Tensor:
    """-m_h |i - j|: the further a key, the less; each head has its own slope.

    Before a causal mask it is the paper's -m (i - j); without one it is the same to both sides.

    Args:
        positions: of the queries, (T,) or (N, T).
        keys: S; they stand at 0 ... S - 1.
        heads: H.

    Returns: (H, T, S) or (N, H, T, S), float32.
    Source: Press et al. 2022, arXiv:2108.12409.
    """
    slopes = torch.tensor(alibi_slopes(heads), dtype=torch.float32, device=positions.device)
    return -slopes[:, None, None] * distances(positions, keys).abs().unsqueeze(-3)


def t5_buckets(distance: Tensor, buckets: int, farthest: int, both_sides: bool) -> Tensor:
    """The class of a distance: near ones have a class each, far ones share wider and wider classes.

    Half of the classes are for single distances; the others grow geometrically up to `farthest`,
    beyond which all is one class. With `both_sides` the first half of all is for keys at or before
    the query and the second for those behind it; otherwise a key behind the query counts as at it.

    Args:
        distance: j - i of key j and query i, whole numbers of any shape.

    Returns: classes from 0 to `buckets` - 1, in the shape of `distance`.
    Source: Raffel et al. 2020, arXiv:1910.10683.
    """
    each = buckets // 2 if both_sides else buckets
    starts = torch.tensor(bucket_starts(each, farthest), device=distance.device)
    behind = torch.where(distance > 0, each, 0) if both_sides else 0
    length = distance.abs() if both_sides else (-distance).clamp(min=0)
    return torch.bucketize(length, starts, right=True) + behind


@cache
def bucket_starts(buckets: int, farthest: int) -> tuple[int, ...]:
    """The least distance of each class but the first.

    Class c >= n/2 begins where n/2 (farthest / (n/2))^((c - n/2) / (n - n/2)) is reached, in whole
    numbers: a logarithm in floating point would put a distance on such a border on either side.
    """
    single = buckets // 2
    starts = list(range(1, single + 1))
    for step in range(1, buckets - single):
        rest = buckets - single
        distance = starts[-1]
        while (distance**rest) * single**step < (farthest**step) * single**rest:
            distance += 1
        starts.append(distance)
    return tuple(starts)

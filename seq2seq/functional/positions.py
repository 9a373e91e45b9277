"""The formulas of positions: rotary and sinusoidal embeddings, the biases of ALiBi and T5, and the
scores of distances in Transformer-XL.
"""

import math

import torch
from torch import Tensor


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Turn the pair (x_i, x_{i + D/2}) by the angle p * base^(-2i/D), so that q . k depends on p_q
    - p_k only.

    Args:
        x: (B, H, T, D), D even.
        positions: (T,), or (B, T) where rows stand at different places.
        base: ratio of the longest wavelength, 2 pi * base, to the shortest, 2 pi.

    Returns: (B, H, T, D) in the type of `x`; angles are float32 at least.
    Raises: ValueError if D is odd.
    Source: Su et al. 2021, arXiv:2104.09864, in the "half" layout.
    """
    D = x.shape[-1]
    if D % 2:
        raise ValueError(f"rotary positions need an even head width, not {D}")
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    half = torch.arange(D // 2, device=x.device, dtype=wide)
    angle = positions.to(wide)[..., None] * base ** (-2 * half / D)  # (T, D / 2) or (B, T, D / 2)
    if angle.dim() == 3:
        angle = angle[:, None]
    cos, sin = angle.cos(), angle.sin()
    first, second = x.to(wide).chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def sinusoid(positions: Tensor, dim: int, endpoint: bool = False) -> Tensor:
    """A vector for each position: sin(p w_i) in the first half, cos(p w_i) in the second, w_i =
    10000^(-2i/dim).

    Args:
        positions: (...,) integers.
        dim: E; if it is odd, the last cosine is left out.
        endpoint: w_i = 10000^(-2i/(dim - 2)) instead, whose last is 1/10000.

    Returns: (..., E), float32 (bfloat16 cannot tell position 256 from 257).
    Source: Vaswani et al. 2017, arXiv:1706.03762, with the halves side by side instead of
    interleaved.
    """
    half = torch.arange((dim + 1) // 2, device=positions.device, dtype=torch.float32)
    angle = positions.float()[..., None] * 10_000.0 ** (-2 * half / max(1, dim - 2 * endpoint))
    return torch.cat((angle.sin(), angle.cos()), dim=-1)[..., :dim]


def distances(positions: Tensor, keys: int) -> Tensor:
    """The distance of each key from its query, negative for a key before it.

    Args:
        positions: positions of the queries, (T,) or (N, T).
        keys: S; they stand at 0 ... S - 1.

    Returns: j - i, (T, S) or (N, T, S).
    """
    return torch.arange(keys, device=positions.device) - positions[..., None]


def alibi_slopes(heads: int, device: torch.device | None = None) -> Tensor:
    """The slope of each head: 2^(-8h/H), h = 1 ... H.

    Where H is not a power of two, the slopes of the next lower power n come first, then every other
    one of those for 2n, so that the new ones lie between the old.

    Returns: (H,), float32.
    Source: Press et al. 2022, arXiv:2108.12409.
    """
    power = 2 ** (heads.bit_length() - 1)
    # Made on the device: a Python list would be copied to the GPU each time.
    head = torch.arange(heads, device=device)
    between = (2 * (head - power) + 1) / (2 * power)
    return torch.exp2(-8 * torch.where(head < power, (head + 1) / power, between))


def alibi(distance: Tensor, heads: int) -> Tensor:
    """-m_h |i - j|: a penalty in proportion to the distance, with a slope for each head.

    With a causal mask it is the paper's -m (i - j); without one it is symmetric.

    Args:
        distance: j - i of key j and query i, (..., T, S); see `distances`.
        heads: H.

    Returns: (..., H, T, S), float32.
    Source: Press et al. 2022, arXiv:2108.12409.
    """
    slopes = alibi_slopes(heads, distance.device)
    return -slopes[:, None, None] * distance.abs().unsqueeze(-3)


def distance_scores(q: Tensor, keys: Tensor, distance: Tensor) -> Tensor:
    """The score of each query with the vector of each key's distance: q_i . r_{j - i}.

    A query meets a distance once, in one product with the vectors of all.

    Args:
        q: (N, H, T, D).
        keys: r of the distances 1 - S, 2 - S, ...: (H, L, D). Those from L - S on share the last.
        distance: j - i, between -S and S, (T, S) or (N, T, S).

    Returns: (N, H, T, S).
    Source: Dai et al. 2019, arXiv:1901.02860.
    """
    # One product a head for all sentences: `@` would copy the keys for each.
    scores = torch.einsum("nhtd,hld->nhtl", q, keys)
    index = (distance + distance.shape[-1] - 1).clamp(max=keys.shape[1] - 1).unsqueeze(-3)
    return scores.gather(-1, index.expand(*scores.shape[:-1], -1))


def t5_buckets(distance: Tensor, starts: Tensor, both_sides: bool) -> Tensor:
    """The class of a distance: near ones have a class each, far ones share wider and wider classes.

    With `both_sides`, keys at or before the query have the first half of the classes, keys after it
    the second; without, a key after the query counts as distance 0.

    Args:
        distance: j - i of key j and query i, integers of any shape.
        starts: result of `bucket_starts`.

    Returns: classes from 0, in the shape of `distance`.
    Source: Raffel et al. 2020, arXiv:1910.10683.
    """
    if not both_sides:
        return torch.bucketize((-distance).clamp(min=0), starts, right=True)
    after = (distance > 0) * (len(starts) + 1)
    return torch.bucketize(distance.abs(), starts, right=True) + after


def bucket_starts(buckets: int, farthest: int) -> list[int]:
    """The smallest distance of each class of one side but the first, whose smallest is 0.

    Half of the classes are for single distances; the others grow geometrically up to `farthest`,
    beyond which all is one class: with m single ones of n, class c > m begins where
    m (farthest / m)^((c - m) / (n - m)) is reached. In integers, since a floating-point logarithm
    may put a distance at a border on either side; it only says where to begin.
    """
    single = buckets // 2
    starts = list(range(1, single + 1))
    for step in range(1, buckets - single):
        rest = buckets - single
        near = math.floor(single * (farthest / single) ** (step / rest)) - 1
        distance = max(starts[-1], near)
        while (distance**rest) * single**step < (farthest**step) * single**rest:
            distance += 1
        starts.append(distance)
    return starts

"""Formulas of position schemes: rotary and sinusoidal embeddings, the biases of ALiBi and T5, and
the distance scores of Transformer-XL.
"""

import math

import torch
from torch import Tensor


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Rotate each pair (x_i, x_{i + D/2}) by the angle p * base^(-2i/D) at position p.

    A product q . k then depends on p_q - p_k, not on the positions themselves.

    Args:
        x: (B, H, T, D), D even.
        positions: (T,), or (B, T) if rows are at different positions.
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
    """A vector for each position p: sin(p w_i) in the first half, cos(p w_i) in the second, with
    w_i = 10000^(-2i/dim).

    Args:
        positions: (...,) integers.
        dim: E; if it is odd, the last cosine is left out.
        endpoint: True for w_i = 10000^(-2i/(dim - 2)) instead, so that the last w_i is 1/10000.

    Returns: (..., E), float32 (bfloat16 cannot tell position 256 from 257).
    Source: Vaswani et al. 2017, arXiv:1706.03762, with sines and cosines in two halves instead of
    interleaved.
    """
    half = torch.arange((dim + 1) // 2, device=positions.device, dtype=torch.float32)
    angle = positions.float()[..., None] * 10_000.0 ** (-2 * half / max(1, dim - 2 * endpoint))
    return torch.cat((angle.sin(), angle.cos()), dim=-1)[..., :dim]


def distances(positions: Tensor, keys: int) -> Tensor:
    """The distance from each query to each key, negative if the key comes first.

    Args:
        positions: positions of the queries, (T,) or (N, T).
        keys: number of keys S, which are at positions 0 ... S - 1.

    Returns: j - i, (T, S) or (N, T, S).
    """
    return torch.arange(keys, device=positions.device) - positions[..., None]


def alibi_slopes(heads: int, device: torch.device | None = None) -> Tensor:
    """The ALiBi slope of each head: 2^(-8h/H), h = 1 ... H, if H is a power of two.

    Otherwise the slopes for the next lower power n come first, and then every
    other slope for 2n, which lie between the slopes for n.

    Returns: (H,), float32.
    Source: Press et al. 2022, arXiv:2108.12409.
    """
    power = 2 ** (heads.bit_length() - 1)
    # Computed on the device: a Python list would be copied to the GPU each time.
    head = torch.arange(heads, device=device)
    between = (2 * (head - power) + 1) / (2 * power)
    return torch.exp2(-8 * torch.where(head < power, (head + 1) / power, between))


def alibi(distance: Tensor, heads: int) -> Tensor:
    """-m_h |i - j|: a penalty proportional to the distance, with a slope for each head.

    With a causal mask it is the paper's -m (i - j); without one it is symmetric.

    Args:
        distance: j - i from query i to key j, (..., T, S); see `distances`.
        heads: H.

    Returns: (..., H, T, S), float32.
    Source: Press et al. 2022, arXiv:2108.12409.
    """
    slopes = alibi_slopes(heads, distance.device)
    return -slopes[:, None, None] * distance.abs().unsqueeze(-3)


def distance_scores(q: Tensor, keys: Tensor, distance: Tensor) -> Tensor:
    """The product of each query with the vector of the distance to each key: q_i . r_{j - i}.

    Each query is multiplied by the vectors of all distances, and the results are then gathered.

    Args:
        q: (N, H, T, D).
        keys: vectors r of the distances 1 - S, 2 - S, ...: (H, L, D). All distances from L - S on
            share the last vector.
        distance: j - i, between -S and S, (T, S) or (N, T, S).

    Returns: (N, H, T, S).
    Source: Dai et al. 2019, arXiv:1901.02860.
    """
    # One product per head for all sentences: `@` would copy the keys for each sentence.
    scores = torch.einsum("nhtd,hld->nhtl", q, keys)
    index = (distance + distance.shape[-1] - 1).clamp(max=keys.shape[1] - 1).unsqueeze(-3)
    return scores.gather(-1, index.expand(*scores.shape[:-1], -1))


def t5_buckets(distance: Tensor, starts: Tensor, both_sides: bool) -> Tensor:
    """The class of each distance: small distances each have their own class, and larger ones share
    classes that become wider and wider.

    With `both_sides`, keys at or before the query use the first half of the classes, and keys after
    it the second half. Without it, a key after the query counts as distance 0.

    Args:
        distance: j - i from query i to key j, integers of any shape.
        starts: result of `bucket_starts`.
        both_sides: True to distinguish keys before and after the query.

    Returns: classes from 0, in the shape of `distance`.
    Source: Raffel et al. 2020, arXiv:1910.10683.
    """
    if not both_sides:
        return torch.bucketize((-distance).clamp(min=0), starts, right=True)
    after = (distance > 0) * (len(starts) + 1)
    return torch.bucketize(distance.abs(), starts, right=True) + after


def bucket_starts(buckets: int, farthest: int) -> list[int]:
    """The smallest distance of each class on one side, except the first, which starts at 0.

    Half of the classes are for single distances. The others grow geometrically up to `farthest`,
    beyond which there is only one class: if m of n classes are single, class c > m begins at
    m (farthest / m)^((c - m) / (n - m)). Borders are found in integers, since floating point may
    put a distance on the wrong side of a border; it only gives the start of the search.
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

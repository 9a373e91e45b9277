"""Linear attention: the softmax replaced by a product of features, so that keys can be summed up
before any query is known.

    out_i = phi(q_i)^T S / (phi(q_i)^T z + eps),   S = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j)

Letters beside those of the package: F features, C tokens of a chunk. Features, sums and
denominators are float32 at least, also under autocast.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.functional.shapes import check

EPS = 1e-6
# Tokens whose weights are written out at once in the causal form: as many as keep the weights of a
# chunk (C x C) and the sums before it (F x M) of about one size.
CHUNK = 64


class Features(NamedTuple):
    """phi of queries or keys, which is values * exp(level): a level keeps exponentials in range.

    Levels are constants to the gradient, since they cancel in the output.
    """

    values: Tensor  # (B, H, T, F), >= 0
    level: Tensor | None = None  # (B, H, T), for keys never falling with T; None = 0


class Sums(NamedTuple):
    """All that a query needs of the keys: S and z, which are total * exp(level)."""

    total: Tensor  # (B, H, F, M + 1): S, and z as its last column
    level: Tensor | None = None  # (B, H); None = 0


def wide(x: Tensor) -> Tensor:
    """x in float32, or in float64 if it is."""
    return x if x.dtype == torch.float64 else x.float()


def elu_features(x: Tensor, mask: Tensor | None = None) -> Features:
    """phi(x) = elu(x) + 1 = x + 1 for x > 0, exp(x) elsewhere; 0 behind the mask.

    Args:
        x: queries or keys, (B, H, T, D).
        mask: (B, T), True = real token.

    Returns: (B, H, T, D), no level.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236.
    """
    x = wide(x)
    # Both branches are differentiated: the exponential that is not taken must not overflow.
    phi = torch.where(x > 0, x + 1, x.clamp(max=0).exp())
    return Features(phi if mask is None else phi.masked_fill(~mask[:, None, :, None], 0))


def key_sums(k: Features, v: Tensor) -> Sums:
    """S and z over all keys.

    Args:
        k: (B, H, S, F), zero for padding.   v: (B, H, S, M).
    """
    check("B H S F, B H S M", k=k.values, v=v)
    end = None if k.level is None else k.level[:, :, -1:]
    with torch.autocast(v.device.type, enabled=False):
        total = rescaled(k.values, k.level, end).transpose(-2, -1) @ with_ones(v)
    return Sums(total, None if end is None else end.squeeze(-1))


def linear_attention(q: Features, sums: Sums, eps: float = EPS) -> Tensor:
    """out_i = phi(q_i)^T S / (phi(q_i)^T z + eps), for queries that see all keys.

    Args:
        q: (B, H, T, F).
        sums: from `key_sums`.

    Returns: (B, H, T, M), float32 at least; zeros where there is no key.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236.
    """
    check("B H T F, B H F M", q=q.values, sums=sums.total)
    with torch.autocast(q.values.device.type, enabled=False):
        seen = q.values @ sums.total
    level = None if sums.level is None else sums.level[..., None]
    return divided(seen, guard(eps, q.level, level))


def causal_linear_attention(
    q: Features,
    k: Features,
    v: Tensor,
    before: Sums | None = None,
    eps: float = EPS,
    chunk: int = CHUNK,
) -> tuple[Tensor, Sums]:
    """The same for queries that see the keys up to their own: T tokens that follow those summed up
    in `before`.

    Weights are written out inside chunks of C tokens; what lies before a chunk is read from sums.
    So time and memory, the gradient's too, grow as T (C + F M / C): linear in T.

    Args:
        q, k: (B, H, T, F).   v: (B, H, T, M).
        before: sums of earlier tokens, not above the level of these keys; None = there are none.
        chunk: C; the result is the same for any.

    Returns: (B, H, T, M), float32 at least; and the sums including these tokens.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236.
    """
    sizes = check("B H T F, B H T F, B H T M", q=q.values, k=k.values, v=v)
    C = min(chunk, sizes["T"])
    queries, keys, values = (in_chunks(x, C) for x in (q.values, k.values, with_ones(v)))
    level = start = end = None  # of every key; before and at the end of every chunk
    if k.level is not None:
        level = in_chunks(k.level[..., None], C, mode="replicate").squeeze(-1)  # (B, H, n, C)
        end = level[..., -1:]
        first = level[:, :, :1, :1] if before is None else as_level(before)
        start = torch.cat((first, end[:, :, :-1]), dim=2)  # (B, H, n, 1)
    with torch.autocast(v.device.type, enabled=False):
        own = rescaled(keys, level, end).transpose(-2, -1) @ values  # (B, H, n, F, M + 1)
        past, total = prefix_sums(own, start, end, None if before is None else before.total)
        near = causal_products(queries, keys, level) @ values
        seen = near + rescaled(queries @ past, start, level)
    seen = seen.flatten(2, 3)[:, :, : sizes["T"]]
    out = divided(seen, guard(eps, q.level, k.level))
    return out, Sums(total, None if k.level is None else k.level[..., -1])


def linear_weights(q: Features, k: Features, causal: bool = False, eps: float = EPS) -> Tensor:
    """The weights a_ij = phi(q_i) . phi(k_j) / (phi(q_i)^T z + eps), written out: for maps, not for
    computing.

    Args:
        q: (B, H, T, F).   k: (B, H, S, F), zero for padding.
        causal: T = S, and a query sees the keys up to its own.

    Returns: (B, H, T, S), float32 at least.
    """
    check("B H T F, B H T F" if causal else "B H T F, B H S F", q=q.values, k=k.values)
    level = None if k.level is None else k.level if causal else k.level[..., -1:]
    with torch.autocast(q.values.device.type, enabled=False):
        if causal:
            products = causal_products(q.values, k.values, k.level)
        else:
            products = q.values @ rescaled(k.values, k.level, level).transpose(-2, -1)
    total = products.sum(-1, keepdim=True)
    return divided(torch.cat((products, total), dim=-1), guard(eps, q.level, level))


def causal_products(q: Tensor, k: Tensor, level: Tensor | None) -> Tensor:
    """phi(q_i) . phi(k_j) for j <= i, at the level of key i; 0 for j > i.

    Args:
        q, k: (..., C, F).   level: (..., C).

    Returns: (..., C, C).
    """
    products = q @ k.transpose(-2, -1)
    if level is None:
        return products.tril()
    # Not from keys at the level of the chunk's end: a large one would wipe out those before it.
    gap = level[..., None, :] - level[..., None]
    past = torch.ones_like(gap, dtype=torch.bool).tril()
    return products * gap.masked_fill(~past, -torch.inf).exp()


def prefix_sums(
    own: Tensor, start: Tensor | None, end: Tensor | None, first: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What has been summed up before each chunk, at the level of its start, and after the last one.

    Args:
        own: the sums of each chunk, at the level of its end, (B, H, n, F, M + 1).
        start, end: levels, (B, H, n, 1).
        first: before the first chunk, (B, H, F, M + 1); None = 0.

    Returns: (B, H, n, F, M + 1) and (B, H, F, M + 1).
    """
    total = torch.zeros_like(own[:, :, 0]) if first is None else first
    past = []
    for chunk in range(own.shape[2]):
        past.append(total)
        if start is not None and end is not None:
            total = rescaled(total, start[:, :, chunk], end[:, :, chunk])
        total = total + own[:, :, chunk]
    return torch.stack(past, dim=2), total


def rescaled(x: Tensor, at: Tensor | None, to: Tensor | None) -> Tensor:
    """x (..., T, F), given at levels (..., T) that are not above those it is brought `to`."""
    return x if at is None or to is None else x * (at - to).exp()[..., None]


def guard(eps: float, of_query: Tensor | None, of_keys: Tensor | None) -> float | Tensor:
    """eps at the level of a denominator, (..., T).

    The levels are bounded: where all features are tiny, eps does not hide them; and where some are
    huge, it is still there to keep 0 / 0 away.
    """
    if of_query is None or of_keys is None:
        return eps
    return eps * (-(of_query + of_keys).clamp(0, 60)).exp()


def divided(seen: Tensor, eps: float | Tensor) -> Tensor:
    """Sums over their denominator, the last column: (..., T, M + 1) -> (..., T, M)."""
    return seen[..., :-1] / (seen[..., -1] + eps)[..., None]


def with_ones(v: Tensor) -> Tensor:
    """(..., S, M) -> (..., S, M + 1): a column of ones sums up the keys beside the values."""
    v = wide(v)
    return torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)


def as_level(sums: Sums) -> Tensor:
    assert sums.level is not None, "keys with a level follow sums with one"
    return sums.level[:, :, None, None]


def in_chunks(x: Tensor, size: int, mode: str = "constant") -> Tensor:
    """(B, H, T, F) -> (B, H, n, size, F), filled up with zeros or, `replicate`, the last token."""
    missing = -x.shape[2] % size
    return (pad(x, (0, 0, 0, missing), mode) if missing else x).unflatten(2, (-1, size))

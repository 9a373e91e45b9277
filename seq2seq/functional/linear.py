"""Linear attention: the softmax is replaced by a product of features.

    out_i = phi(q_i)^T U / (phi(q_i)^T z + eps),   U = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j)

Additional letters: F features, C tokens of a chunk. Features, sums and denominators are float32 at
least, also under autocast. Source: Katharopoulos et al. 2020, arXiv:2006.16236.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.functional.features import FeatureMap, Features
from seq2seq.functional.scores import run_checkpointed
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast

# Tokens of a chunk, whose weights the causal form holds at once. With this number the weights of a
# chunk (C x C) and the sums before it (F x M) have about the same size.
CHUNK = 64
# Tokens whose features are held at once. For longer sequences, training recomputes the features for
# the gradient: they would take most of the memory, and memory that is not soon reused costs more
# time than the recomputation.
SEGMENT = 1024


class Sums(NamedTuple):
    """The sums U and z over keys that a query reads, stored as total * exp(level)."""

    total: Tensor  # (B, H, F, M + 1): S, and z as its last column
    level: Tensor | None = None  # (B, H, 1); None = 0


def key_sums(phi: FeatureMap, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Sums:
    """The sums U and z over all keys.

    Args:
        phi: the feature map.
        k: (B, H, S, D).   v: (B, H, S, M).
        mask: (B, S), True = real token.
    """
    check("B H S D, B H S M", k=k, v=v)

    def add(k: Tensor, v: Tensor, mask: Tensor | None, before: Sums | None) -> Sums:
        return segment_sums(phi.keys(k, mask, level_of(before)), v, before)

    sums: Sums | None = None
    for part in segments(k, v, mask=mask):
        sums = compute_segment(add, k.shape[2], *part, sums)
    assert sums is not None
    return sums


def linear_attention(phi: FeatureMap, q: Tensor, sums: Sums) -> Tensor:
    """The outputs of queries that see all keys.

    Args:
        phi: the feature map.
        q: (B, H, T, D).
        sums: result of `key_sums`, with F features and values of width M.

    Returns: (B, H, T, M), float32 at least; zeros where there is no key.
    """
    check("B H T D, B H F M", q=q, sums=sums.total)

    def attend_segment(q: Tensor, sums: Sums) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            return normalize(phi.queries(q) @ sums.total, phi.eps)

    T = q.shape[2]
    return torch.cat(
        [compute_segment(attend_segment, T, part, sums) for part, _ in segments(q)], dim=2
    )


def causal_linear_attention(
    phi: FeatureMap,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    before: Sums | None = None,
) -> tuple[Tensor, Sums]:
    """The outputs of T queries, each of which sees the keys up to its own position.

    In training it is called once for all tokens; a step of decoding passes the sums that the
    previous step returned.

    Args:
        phi: the feature map.
        q, k: (B, H, T, D).   v: (B, H, T, M).
        mask: mask of the keys, (B, T), True = real token.
        before: sums over the earlier tokens; None if there are no earlier tokens.

    Returns: (B, H, T, M), float32 at least; and the sums including these tokens.
    """
    check("B H T D, B H T D, B H T M", q=q, k=k, v=v)

    def attend_segment(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: Sums | None
    ) -> tuple[Tensor, Sums]:
        keys = phi.keys(k, mask, level_of(before))
        return causal_segment(phi.queries(q), keys, v, before, phi.eps)

    outs, sums = [], before
    for part in segments(q, k, v, mask=mask):
        out, sums = compute_segment(attend_segment, q.shape[2], *part, sums)
        outs.append(out)
    assert sums is not None
    return torch.cat(outs, dim=2), sums


def linear_weights(
    phi: FeatureMap, q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """The full weights a_ij = phi(q_i) . phi(k_j) / (phi(q_i)^T z + eps).

    They are meant for display; computing the outputs does not need them.

    Args:
        phi: the feature map.
        q: (B, H, T, D).   k: (B, H, S, D).
        mask: mask of the keys, (B, S), True = real token.
        causal: True if T = S and each query sees the keys up to its own position.

    Returns: (B, H, T, S), float32 at least.
    """
    check("B H T D, B H T D" if causal else "B H T D, B H S D", q=q, k=k)
    queries, keys = phi.queries(q), phi.keys(k, mask, None)
    with torch.autocast(q.device.type, enabled=False):
        if causal:
            products = causal_products(queries, keys.values, keys.level)
        else:
            end = None if keys.level is None else keys.level[..., -1:]
            products = queries @ rescale(keys.values, keys.level, end).transpose(-2, -1)
    return normalize(torch.cat((products, products.sum(-1, keepdim=True)), dim=-1), phi.eps)


def segment_sums(k: Features, v: Tensor, before: Sums | None) -> Sums:
    """The sums `before` plus those of one more segment: k (B, H, S, F), v (B, H, S, M)."""
    end = None if k.level is None else k.level[:, :, -1:]
    with torch.autocast(v.device.type, enabled=False):
        total = rescale(k.values, k.level, end).transpose(-2, -1) @ append_ones(v)
        if before is not None:
            total = total + rescale(before.total, before.level, end)
    return Sums(total, end)


def causal_segment(
    q: Tensor, k: Features, v: Tensor, before: Sums | None, eps: float
) -> tuple[Tensor, Sums]:
    """`causal_linear_attention` for one segment, whose features fit in memory.

    The weights inside a chunk are computed; earlier chunks are read through their sums. The result
    is the same for any chunk size.

    Args:
        q, k: features (B, H, T, F); no level of a key is below the level of `before`.
        v: (B, H, T, M).
    """
    T = v.shape[2]
    C = min(CHUNK, T)
    queries, keys, values = (split_chunks(x, C) for x in (q, k.values, append_ones(v)))
    level = start = end = None  # levels of every key, before every chunk and at its end
    if k.level is not None:
        level = split_chunks(k.level[..., None], C, mode="replicate").squeeze(-1)  # (B, H, n, C)
        end = level[..., -1:]
        first = level_of(before)
        first = level[:, :, :1, :1] if first is None else first[..., None]
        start = torch.cat((first, end[:, :, :-1]), dim=2)  # (B, H, n, 1)
    with torch.autocast(v.device.type, enabled=False):
        sums = rescale(keys, level, end).transpose(-2, -1) @ values  # (B, H, n, F, M + 1)
        past, total = prefix_sums(sums, start, end, None if before is None else before.total)
        near = causal_products(queries, keys, level) @ values
        seen = near + rescale(queries @ past, start, level)
    out = normalize(seen.flatten(2, 3)[:, :, :T], eps)
    return out, Sums(total, None if k.level is None else k.level[..., -1:])


def causal_products(q: Tensor, k: Tensor, level: Tensor | None) -> Tensor:
    """phi(q_i) . phi(k_j) for j <= i, at the level of key i; 0 for j > i.

    Args:
        q, k: (..., C, F).   level: (..., C).

    Returns: (..., C, C).
    """
    products = q @ k.transpose(-2, -1)
    if level is None:
        return products.tril()
    # If all keys were at the level of the chunk's end, a large key would underflow earlier ones.
    gap = level[..., None, :] - level[..., None]
    past = torch.ones_like(gap, dtype=torch.bool).tril()
    return products * gap.masked_fill(~past, -torch.inf).exp()


def prefix_sums(
    sums: Tensor, start: Tensor | None, end: Tensor | None, first: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The sums before each chunk, at the level of its start, and after the last one.

    Args:
        sums: sums of each chunk, at the level of its end, (B, H, n, F, M + 1).
        start, end: levels of each chunk, (B, H, n, 1).
        first: sum before the first chunk, (B, H, F, M + 1); None = 0.

    Returns: (B, H, n, F, M + 1) and (B, H, F, M + 1).
    """
    total = sums.new_zeros(sums.shape[:2] + sums.shape[3:]) if first is None else first
    past = []
    # `unbind` instead of indices: the gradient of each index would be as large as all chunks.
    for chunk, added in enumerate(sums.unbind(2)):
        past.append(total)
        if start is not None and end is not None:
            total = rescale(total, start[:, :, chunk], end[:, :, chunk])
        total = total + added
    return torch.stack(past, dim=2), total


def rescale(x: Tensor, at: Tensor | None, to: Tensor | None) -> Tensor:
    """Change the levels of x (..., T, F) from `at` (..., T) to `to`, which must not be lower."""
    return x if at is None or to is None else x * (at - to).exp()[..., None]


def normalize(seen: Tensor, eps: float) -> Tensor:
    """Divide sums by their denominator, the last column: (..., T, M + 1) -> (..., T, M)."""
    return seen[..., :-1] / (seen[..., -1] + eps)[..., None]


def append_ones(v: Tensor) -> Tensor:
    """Append a column of ones, which sums the keys: (..., S, M) -> (..., S, M + 1)."""
    v = upcast(v)
    return torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)


def level_of(sums: Sums | None) -> Tensor | None:
    return None if sums is None else sums.level


def split_chunks(x: Tensor, size: int, mode: str = "constant") -> Tensor:
    """(B, H, T, F) -> (B, H, n, size, F), padded with zeros, or by `replicate` the last token."""
    missing = -x.shape[2] % size
    padded = pad(x, (0, 0, 0, missing), mode) if missing else x
    return torch.unflatten(padded, 2, (-1, size))


def segments(*tensors: Tensor, mask: Tensor | None = None) -> Iterator[tuple[Any, ...]]:
    """Split tensors (B, H, T, width) and a mask (B, T) or None into segments of SEGMENT tokens."""
    parts = [x.split(SEGMENT, dim=2) for x in tensors]
    masks = [None] * len(parts[0]) if mask is None else mask.split(SEGMENT, dim=1)
    # `split` instead of slices: the gradient of each slice would have the full size.
    return zip(*parts, masks, strict=True)


def compute_segment(function: Callable[..., Any], tokens: int, *inputs: Any) -> Any:
    """function(*inputs), recomputed for the gradient if there is more than one segment."""
    return function(*inputs) if tokens <= SEGMENT else run_checkpointed(function, *inputs)

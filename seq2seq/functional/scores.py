"""Score functions e_ij = f(q_i, k_j): how well key j answers query i.

Each function takes its parameters as arguments, with a leading axis of heads, and returns
(B, H, T, S).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seq2seq.functional.shapes import check, check_head_groups
from seq2seq.functional.softmax import upcast

# Most elements to hold at once for a score that needs another axis beside T and S: 64 MiB of
# float32.
MAX_ELEMENTS = 2**24


def dot(q: Tensor, k: Tensor, scale: float = 1.0) -> Tensor:
    """e = scale q . k.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.
        scale: 1 gives Luong's dot, 1 / sqrt(D) the scaled dot product.

    Returns: (B, H, T, S).
    Source: Luong et al. 2015, arXiv:1508.04025; Vaswani et al. 2017, arXiv:1706.03762.
    """
    sizes = check("B H T D, B G S D", q=q, k=k)
    B, H, T, D, G = (sizes[letter] for letter in "BHTDG")
    # -> (B, G, H / G * T, D): the query heads of a group count as more queries of its key head
    grouped = (q * scale).reshape(B, G, H // G * T, D)
    return (grouped @ k.transpose(-2, -1)).view(B, H, T, -1)


def project_per_head(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply a linear map for each head: x (B, G, S, D), weight (H, A, D), bias (H, A) ->
    (B, H, S, A), where G divides H.
    """
    H, G = weight.shape[0], x.shape[1]
    check_head_groups(H, G)
    if G != H:
        x = x.repeat_interleave(H // G, dim=1)
    # One product per head for all sentences; a broadcast matmul would copy the weights B times.
    out = torch.einsum("bhsd,had->bhsa", x, weight)
    return out if bias is None else out + bias[:, None]


def additive(wq: Tensor, wk: Tensor, u: Tensor, max_elements: int = MAX_ELEMENTS) -> Tensor:
    """e = u . tanh(Wq q + Wk k + b), from the two projections Wq q and Wk k + b.

    The projection of the keys does not depend on the query, so that a decoder computes it once per
    sentence.

    Args:
        wq: Wq q, (B, H, T, A).   wk: Wk k + b, (B, H, S, A).   u: (H, A).
        max_elements: limit of `score_in_chunks`; the hidden layer has B H T S A elements.

    Returns: (B, H, T, S).
    Source: Bahdanau et al. 2015, arXiv:1409.0473.
    """
    sizes = check("B H T A, B H S A, H A", wq=wq, wk=wk, u=u)

    def score(queries: Tensor) -> Tensor:
        hidden = (queries[:, :, :, None] + wk[:, :, None]).tanh_()
        return torch.einsum("bhtsa,ha->bhts", hidden, u)

    return score_in_chunks(score, wq, sizes["S"] * sizes["A"], max_elements)


def gaussian(q: Tensor, k: Tensor, w: Tensor, max_elements: int = MAX_ELEMENTS) -> Tensor:
    """e = -w / 2 |q - k|^2, the logarithm of a Gaussian kernel of variance 1 / w around the query.

    The difference itself is squared, because |q|^2 + |k|^2 - 2 q . k would lose all digits of a
    small distance between two long vectors. The result is not in bfloat16, because the score of
    every key includes |q|^2 and there would be no digits left to tell keys apart.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.   w: (H,), above 0.
        max_elements: limit of `score_in_chunks`; the differences have B H T S D elements.

    Returns: (B, H, T, S), float32 at least.
    Source: Nadaraya 1964, Theory of Probability and Its Applications 9; Watson 1964, Sankhya A 26.
    """
    sizes = check("B H T D, B G S D, H", q=q, k=k, w=w)
    q, k, w = (upcast(x) for x in (q, k, w))
    keys = k.repeat_interleave(sizes["H"] // sizes["G"], dim=1)

    def score(queries: Tensor) -> Tensor:
        distance = (queries[:, :, :, None] - keys[:, :, None]).square().sum(-1)
        return -w[:, None, None] / 2 * distance

    return score_in_chunks(score, q, sizes["S"] * sizes["D"], max_elements)


def gaussian_key_bias(k: Tensor, w: Tensor) -> Tensor:
    """The bias -w / 2 |k|^2 of each key, with which the dot product w q . k has the same softmax as
    the `gaussian` score, since |q|^2 cancels.

    A kernel for dot products with a bias can therefore compute it. The maximum is subtracted, which
    cancels too: a kernel in bfloat16 would round a large bias too coarsely.

    Args:
        k: (B, G, S, D), G divides H.   w: (H,).

    Returns: (B, H, 1, S), float32 at least.
    """
    square = upcast(k).square().sum(-1).repeat_interleave(w.shape[0] // k.shape[1], dim=1)
    bias = (-w[:, None] / 2 * square)[:, :, None]
    return bias - bias.detach().amax(-1, keepdim=True) if bias.numel() else bias


def score_in_chunks(
    score: Callable[[Tensor], Tensor], q: Tensor, each: int, max_elements: int = MAX_ELEMENTS
) -> Tensor:
    """score(q), computed in chunks of queries that hold at most `max_elements` elements.

    It is for scores that need memory for another axis beside T and S. In training each chunk is
    recomputed for its gradient, unless one chunk holds all queries.

    Args:
        score: function (B, H, T', D) -> (B, H, T', S), without randomness.
        q: (B, H, T, D).
        each: number of elements held for one query of one head.
    """
    B, H, T, _ = q.shape
    rows = max(1, max_elements // max(1, B * H * each))
    if rows >= T:
        return score(q)
    return torch.cat([run_checkpointed(score, part) for part in q.split(rows, dim=2)], dim=2)


def run_checkpointed(function: Callable[..., Any], *inputs: Any) -> Any:
    """function(*inputs), recomputed for the gradient if there is one. It must not be random."""
    if not torch.is_grad_enabled():
        return function(*inputs)
    return checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)

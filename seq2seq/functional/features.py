"""Feature maps: functions phi such that phi(q) . phi(k) is the weight of a key.

With such weights the keys can be summed before any query is known. Linear attention uses elu + 1.
FAVOR+ draws random features whose products estimate the kernel of softmax attention,
E[phi(q) . phi(k)] = exp(q . k / sqrt(D)) (Choromanski et al. 2020, arXiv:2009.14794).

Additional letters: F features; x' = x / D^(1/4).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast


class Features(NamedTuple):
    """phi of keys, stored as values * exp(level) so that exponentials do not overflow.

    Gradients treat levels as constants, since they cancel in the output.
    """

    values: Tensor  # (B, H, S, F), >= 0, float32 at least
    level: Tensor | None = None  # (B, H, S), non-decreasing along S; None = 0


class FeatureMap(NamedTuple):
    """The functions that compute phi for queries and for keys.

    `queries` takes (B, H, T, D); it may omit a common factor of each query, which cancels in the
    output. `keys` takes (B, H, S, D), a mask (B, S) with True = real token or None, and the level
    (B, H, 1) of the earlier keys or None; its values are zero where masked. `eps` is added to
    denominators to avoid 0 / 0.
    """

    queries: Callable[[Tensor], Tensor]
    keys: Callable[[Tensor, Tensor | None, Tensor | None], Features]
    eps: float = 1e-6


def elu_features(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1 = x + 1 for x > 0, exp(x) elsewhere.

    Args:
        x: any shape.

    Returns: the shape of x, float32 at least.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236.
    """
    x = upcast(x)
    # Both branches are differentiated, so the exponential must not overflow even where x > 0.
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def keys_without_level(
    phi: Callable[[Tensor], Tensor], k: Tensor, mask: Tensor | None, before: Tensor | None
) -> Features:
    """Features of keys by the same function as for queries, whose values need no level."""
    return Features(fill_masked(phi(k), mask, 0.0))


def fill_masked(x: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """x (B, H, S, F) with `value` where the mask (B, S) is False."""
    return x if mask is None else x.masked_fill(~mask[:, None, :, None], value)


ELU = FeatureMap(elu_features, partial(keys_without_level, elu_features))

# The `eps` of FAVOR+. Where no large feature of a query meets a large feature of a key, the
# denominator is small but still exact: adding 1e-6 would change the result.
GUARD = 1e-20


def default_features(width: int) -> int:
    """Default number of features: D ln D, rounded up to a multiple of D."""
    return width * max(1, math.ceil(math.log(width)))


def orthogonal_features(count: int, width: int) -> Tensor:
    """Random directions w_1 ... w_F, each N(0, I), orthogonal to each other within blocks of D.

    They are drawn from torch's default generator, on torch's default device.

    Args:
        count: F.   width: D.

    Returns: (F, D).
    """
    blocks = math.ceil(count / width)
    q, r = torch.linalg.qr(torch.randn(blocks, width, width))
    # The signs of a QR decomposition are a convention, not random. Without this correction its
    # columns are not uniform directions, and the estimate of the kernel is biased.
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    directions = (q * sign[:, None]).transpose(-2, -1).flatten(0, 1)[:count]
    # The rows of an orthogonal matrix have length 1; give them the random length of Gaussians.
    return torch.mul(directions, torch.randn(count, width).norm(dim=-1, keepdim=True))


def project_features(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """x' = x / D^(1/4) and w . x': (B, H, T, D), (F, D) -> (B, H, T, D), (B, H, T, F)."""
    sizes = check("B H T D, F D", x=x, w=w)
    small = upcast(x) * sizes["D"] ** -0.25
    with torch.autocast(x.device.type, enabled=False):
        return small, small @ w.to(small.dtype).T


def log_features(x: Tensor, w: Tensor) -> Tensor:
    """w_m . x' - |x'|^2 / 2: (B, H, T, D), (F, D) -> (B, H, T, F), float32 at least."""
    small, products = project_features(x, w)
    return products - small.square().sum(-1, keepdim=True) / 2


def favor_map(w: Tensor) -> FeatureMap:
    """phi(x)_m = exp(w_m . x' - |x'|^2 / 2) / sqrt(F).

    Each query is divided by its largest feature. The level of a key is the largest log feature of
    all keys up to it, so that it depends neither on later keys nor on padding.

    Args:
        w: (F, D), from `orthogonal_features`.
    """
    scale: float = len(w) ** -0.5

    def queries(q: Tensor) -> Tensor:
        logs = log_features(q, w)
        return (logs - logs.detach().amax(-1, keepdim=True)).exp() * scale

    def keys(k: Tensor, mask: Tensor | None, before: Tensor | None) -> Features:
        # Mask before the exponential, which may overflow at padding.
        logs = fill_masked(log_features(k, w), mask, -torch.inf)
        # Keep the level finite where there is no key yet, since -inf - -inf is NaN.
        largest = logs.detach().amax(-1).clamp(min=torch.finfo(logs.dtype).min)
        if before is not None:
            largest = torch.maximum(largest, before)
        level = largest.cummax(-1).values
        return Features((logs - level[..., None]).exp() * scale, level)

    return FeatureMap(queries, keys, GUARD)


def relu_map(w: Tensor) -> FeatureMap:
    """phi(x)_m = max(0, w_m . x') + 1e-3, called generalised attention in the Performer paper.

    Args:
        w: (F, D), from `orthogonal_features`.
    """

    def phi(x: Tensor) -> Tensor:
        return project_features(x, w)[1].relu() + 1e-3

    return FeatureMap(phi, partial(keys_without_level, phi))

"""Feature maps: phi(q) . phi(k) as the weight of a key, so that keys can be summed up before any
query is known.

Letters beside those of the package: F features.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.precision import widened


class Features(NamedTuple):
    """phi of keys, which is values * exp(level): a level keeps exponentials in range.

    Levels are constants to the gradient, since they cancel in the output.
    """

    values: Tensor  # (B, H, S, F), >= 0, float32 at least
    level: Tensor | None = None  # (B, H, S), never falling with S; None = 0


class FeatureMap(NamedTuple):
    """phi, of queries and of keys.

    `queries` takes (B, H, T, D), and may leave out a factor of each query, which cancels. `keys`
    takes (B, H, S, D), a mask (B, S) with True = real token or None, and the level (B, H) of the
    keys before or None; its values are zero behind the mask. `eps` is added to the denominators
    that come of it, against 0 / 0.
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
    x = widened(x)
    # Both branches are differentiated: the exponential that is not taken must not overflow.
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def without_level(phi: Callable[[Tensor], Tensor]) -> FeatureMap:
    """The map of a function whose values need no level, the same for queries and keys."""

    def keys(k: Tensor, mask: Tensor | None, before: Tensor | None) -> Features:
        return Features(masked(phi(k), mask, 0.0))

    return FeatureMap(phi, keys)


def masked(x: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """x (B, H, S, F) with `value` behind the mask (B, S)."""
    return x if mask is None else x.masked_fill(~mask[:, None, :, None], value)


ELU = without_level(elu_features)

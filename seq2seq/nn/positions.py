"""Position schemes: how a model that sees sets of tokens learns their order.

A scheme acts at one of two hooks. `embed` adds a vector to each token at the bottom of a stack;
`rotate` turns queries and keys inside every self-attention. In cross-attention source and target
positions have no common axis, so a scheme that acts inside attention is skipped there.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from seq2seq.functional import rotate, sinusoid
from seq2seq.tables import Table


class PositionScheme(nn.Module):
    """Tokens without an order: the base of all schemes, and `position=none` itself."""

    hook: ClassVar[str | None] = None  # "embed", "rotate" or None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Token vectors (N, T, E), at positions (T,) or (N, T), with what the scheme adds to
        them.
        """
        return x

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (N, H, T, D), turned by their positions (T,) or (N, T)."""
        return x


class Sinusoidal(PositionScheme):
    """A fixed vector of sines and cosines for each position. Vaswani et al. 2017,
    arXiv:1706.03762.
    """

    hook = "embed"

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + sinusoid(positions, x.shape[-1]).to(x.dtype)


class Rotary(PositionScheme):
    """Queries and keys are rotated, so that a score depends on the distance. Su et al. 2021,
    arXiv:2104.09864.

    Args:
        base: wavelengths run from 2 pi to 2 pi * base tokens.
    """

    hook = "rotate"

    def __init__(self, *, base: float = 10_000.0):
        super().__init__()
        self.base = base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotate(x, positions, self.base)


POSITIONS: Table[Any] = Table(
    "position", {"sinusoidal": Sinusoidal, "rope": Rotary, "none": PositionScheme}
)

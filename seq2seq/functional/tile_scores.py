"""Score functions for one tile of flash attention, with their gradients."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class TilePair(NamedTuple):
    """The queries and keys of a tile, or the gradients accumulated for them."""

    q: Tensor  # (N, rows, D); in a dot product the query heads of a group count as more rows
    k: Tensor  # (N, columns, D)


class DotScore(NamedTuple):
    """e = scale q . k."""

    scale: float

    @property
    def width(self) -> int:
        """Number of buffer elements needed for each pair of a query and a key."""
        return 1

    def compare(self, pair: TilePair, buffer: Tensor) -> Tensor:
        """Compute the scores of a tile, (N, rows, columns).

        Args:
            pair: queries and keys of the tile.
            buffer: working space of at least N * rows * columns * width elements.
        """
        N, rows, columns = len(pair.q), pair.q.shape[1], pair.k.shape[1]
        scores = buffer[: N * rows * columns].view(N, rows, columns)
        keys = pair.k.transpose(1, 2)
        return torch.baddbmm(scores, pair.q, keys, beta=0, alpha=self.scale, out=scores)

    def add_gradients(self, de: Tensor, pair: TilePair, buffer: Tensor, into: TilePair) -> None:
        """Add this tile's part to the gradients of queries, keys and the score's own parameters.

        Args:
            de: gradient of the scores, (N, rows, columns).
            pair: queries and keys of the tile.
            buffer: contents that `compare` left for this tile; they may be overwritten.
            into: gradients to add to, with the same shapes as `pair`.
        """
        into.q.baddbmm_(de, pair.k, alpha=self.scale)
        into.k.baddbmm_(de.transpose(1, 2), pair.q, alpha=self.scale)


class AdditiveScore(NamedTuple):
    """e = u . h with the hidden layer h_ij = tanh(q_i + k_j), which is only held for one tile.

    du = sum_ij de_ij h_ij,   dq_i = u * sum_j de_ij (1 - h_ij^2),   dk_j = u * sum_i ...
    """

    u: Tensor  # (H, A)
    du: Tensor | None  # accumulated gradient of u; None if it is not needed

    @property
    def width(self) -> int:
        return self.u.shape[1]

    def hidden(self, pair: TilePair, buffer: Tensor) -> Tensor:
        """A view of the buffer as (N, rows, columns, A)."""
        shape = *pair.q.shape[:2], pair.k.shape[1], self.width
        return buffer[: math.prod(shape)].view(shape)

    def vectors(self, N: int) -> Tensor:
        """u repeated for every head of every sentence, (N, A)."""
        H, A = self.u.shape
        return self.u.expand(N // H, H, A).reshape(N, A)

    def compare(self, pair: TilePair, buffer: Tensor) -> Tensor:
        hidden = self.hidden(pair, buffer)
        torch.add(pair.q[:, :, None], pair.k[:, None], out=hidden).tanh_()
        scores = torch.bmm(hidden.flatten(1, 2), self.vectors(len(hidden))[:, :, None])
        return scores.view(hidden.shape[:3])

    def add_gradients(self, de: Tensor, pair: TilePair, buffer: Tensor, into: TilePair) -> None:
        hidden = self.hidden(pair, buffer)
        if self.du is not None:
            du = torch.bmm(de.flatten(1)[:, None], hidden.flatten(1, 2))
            self.du.add_(du.view(-1, *self.u.shape).sum(0))
        slope = torch.addcmul(de.new_ones(()), hidden, hidden, value=-1, out=hidden)
        slope.mul_(de[..., None])
        u = self.vectors(len(hidden))[:, None]
        into.q.addcmul_(slope.sum(2), u)
        into.k.addcmul_(slope.sum(1), u)


TileScore = DotScore | AdditiveScore  # e_ij = f(q_i, k_j) for the pairs of a tile

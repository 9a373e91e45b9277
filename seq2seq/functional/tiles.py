"""The scores of T queries and S keys, cut into tiles so that few are ever held at once."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.dropout import keep_factors
from seq2seq.functional.softmax import causal_mask


class Tiling(NamedTuple):
    """A rule for computing scores, and their division into tiles."""

    scale: float
    causal: bool
    dropout: float
    seed: int  # of the dropout
    block_q: int  # queries of a tile
    block_k: int  # keys of a tile


class Tiles(NamedTuple):
    """The tiles of (B, H, T, S) scores e_ij = q_i . k_j + bias_ij, computed on demand.

    A tile has the scores of a block of queries, `rows`, with a block of keys, `columns`; the H / G
    query heads of a group stand below each other: (B * G, H / G * rows, columns).
    """

    shape: tuple[int, int, int, int]  # B, H, T, S
    tiling: Tiling
    bias: Tensor | None  # each axis as long as that of `shape`, or 1
    mask: Tensor | None

    def rows(self) -> Iterator[slice]:
        """The blocks of queries."""
        T = self.shape[2]
        for start in range(0, T, self.tiling.block_q):
            yield slice(start, min(T, start + self.tiling.block_q))

    def columns(self, rows: slice) -> Iterator[slice]:
        """The blocks of keys that a block of queries may read."""
        _, _, T, S = self.shape
        end = S - T + rows.stop if self.tiling.causal else S
        for start in range(0, end, self.tiling.block_k):
            yield slice(start, min(end, start + self.tiling.block_k))

    def new_buffer(self, q: Tensor) -> Tensor:
        """A buffer for one tile, reused for all: fresh memory is slow."""
        B, H, _, _ = self.shape
        return q.new_empty(B * H * self.tiling.block_q * self.tiling.block_k)

    def scores(self, q: Tensor, k: Tensor, rows: slice, columns: slice, buffer: Tensor) -> Tensor:
        """The scores of a tile, -inf where a query may not read a key.

        Args:
            q: of the block, scaled, (B * G, H / G * rows, D).   k: of all keys, (B * G, S, D).
            buffer: the buffer that they are written to; see `new_buffer`.
        """
        scores = products(q, k, columns, buffer)
        heads = self.by_heads(scores, rows)
        if self.bias is not None:
            heads += take_tile(self.bias, rows, columns).to(heads.dtype)
        if self.mask is not None:
            heads.masked_fill_(~take_tile(self.mask, rows, columns), -torch.inf)
        if self.tiling.causal:
            _, _, T, S = self.shape
            here = S - T + rows.start  # where the block's first query stands
            after = max(columns.start, here + 1)  # from here on some query may not read
            if after < columns.stop:
                seen = causal_mask(
                    length_of(rows), columns.stop - after, here - after, device=q.device
                )
                heads[..., after - columns.start :].masked_fill_(~seen, -torch.inf)
        return scores

    def keep(self, scores: Tensor, rows: slice, columns: slice) -> Tensor | None:
        """The dropout factors of the weights of a tile, the same at every call."""
        if self.tiling.dropout == 0:
            return None
        offset = rows.start * self.shape[3] + columns.start
        # An odd factor gives each tile another seed, even in the 32 bits that a CPU reads.
        seed = (self.tiling.seed + offset * 0x9E3779B97F4A7C15) % 2**63
        generator = torch.Generator(scores.device).manual_seed(seed)
        return keep_factors(scores, self.tiling.dropout, generator)

    def by_heads(self, tile: Tensor, rows: slice) -> Tensor:
        """A tile as (B, H, rows, columns), a view."""
        B, H = self.shape[:2]
        return tile.view(B, H, length_of(rows), tile.shape[2])


def products(x: Tensor, y: Tensor, columns: slice, buffer: Tensor) -> Tensor:
    """x_i . y_j for the y in a block of keys, written into `buffer`: (N, n, D), (N, S, D) -> (N, n,
    columns).
    """
    N, n, _ = x.shape
    tile = buffer[: N * n * length_of(columns)].view(N, n, length_of(columns))
    return torch.bmm(x, y[:, columns].transpose(1, 2), out=tile)


def length_of(block: slice) -> int:
    return int(block.stop - block.start)


def take_tile(x: Tensor, rows: slice, columns: slice) -> Tensor:
    """The part of a bias or mask that belongs to a tile; an axis of length 1 belongs to all."""
    whole = slice(None)
    return x[:, :, rows if x.shape[2] > 1 else whole, columns if x.shape[3] > 1 else whole]

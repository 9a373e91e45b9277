"""Division of the scores of T queries and S keys into tiles, so that few are held at once."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.dropout import keep_factors_at
from seq2seq.functional.softmax import causal_mask


class TileSize(NamedTuple):
    """The size of a tile, which covers all heads."""

    sentences: int
    queries: int
    keys: int


class Tiling(NamedTuple):
    """Options of the scores, and the size of the tiles into which they are divided."""

    scale: float
    causal: bool
    dropout: float
    seed: int  # seed of the dropout
    size: TileSize

    def parts(self, B: int) -> Iterator[slice]:
        """Groups of the B sentences, which are computed one after another."""
        for start in range(0, B, self.size.sentences):
            yield slice(start, min(B, start + self.size.sentences))


class Tiles(NamedTuple):
    """The tiles of (B, H, T, S) scores, with the mask, bias and dropout that apply to them.

    A tile has the scores of a block of queries, `rows`, and a block of keys, `columns`. The H / G
    query heads of a group follow each other as rows: (B * G, H / G * rows, columns).
    """

    shape: tuple[int, int, int, int]  # B, H, T, S
    tiling: Tiling
    bias: Tensor | None  # each axis has the length of the axis of `shape`, or 1
    mask: Tensor | None
    first: int = 0  # number of the first of these sentences in the whole batch

    def rows(self) -> Iterator[slice]:
        """The blocks of queries."""
        T = self.shape[2]
        for start in range(0, T, self.tiling.size.queries):
            yield slice(start, min(T, start + self.tiling.size.queries))

    def columns(self, rows: slice) -> Iterator[slice]:
        """The blocks of keys that a block of queries may read."""
        _, _, T, S = self.shape
        end = S - T + rows.stop if self.tiling.causal else S
        for start in range(0, end, self.tiling.size.keys):
            yield slice(start, min(end, start + self.tiling.size.keys))

    def new_buffer(self, q: Tensor, width: int) -> Tensor:
        """A buffer for one tile. It is reused for all tiles, since new memory is slow."""
        B, H, _, _ = self.shape
        return q.new_empty(B * H * self.tiling.size.queries * self.tiling.size.keys * width)

    def hide(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        """Add the bias to the scores of a tile, in place, and set them to -inf where a query may
        not read a key.
        """
        heads = self.by_heads(scores, rows)
        if self.bias is not None:
            heads += take_tile(self.bias, rows, columns).to(heads.dtype)
        if self.mask is not None:
            heads.masked_fill_(~take_tile(self.mask, rows, columns), -torch.inf)
        if self.tiling.causal:
            _, _, T, S = self.shape
            here = S - T + rows.start  # position of the block's first query
            after = max(columns.start, here + 1)  # first key that some query may not read
            if after < columns.stop:
                seen = causal_mask(
                    length_of(rows), columns.stop - after, here - after, device=scores.device
                )
                heads[..., after - columns.start :].masked_fill_(~seen, -torch.inf)
        return scores

    def keep(self, scores: Tensor, rows: slice, columns: slice) -> Tensor | None:
        """The dropout factors of the weights of a tile, the same in tiles of any size."""
        if self.tiling.dropout == 0:
            return None
        B, H, T, _ = self.shape
        device = scores.device
        heads = torch.arange(self.first * H, (self.first + B) * H, device=device)
        queries = heads[:, None] * T + torch.arange(rows.start, rows.stop, device=device)
        keys = torch.arange(columns.start, columns.stop, device=device)
        p, seed = self.tiling.dropout, self.tiling.seed
        return keep_factors_at(seed, queries, keys, p, scores).view(scores.shape)

    def by_heads(self, tile: Tensor, rows: slice) -> Tensor:
        """A view of a tile as (B, H, rows, columns)."""
        B, H = self.shape[:2]
        return tile.view(B, H, length_of(rows), tile.shape[2])


def length_of(block: slice) -> int:
    return int(block.stop - block.start)


def take_tile(x: Tensor, rows: slice, columns: slice) -> Tensor:
    """The part of a bias or mask that applies to a tile; an axis of length 1 applies to all."""
    whole = slice(None)
    return x[:, :, rows if x.shape[2] > 1 else whole, columns if x.shape[3] > 1 else whole]


def take_sentences(x: Tensor | None, part: slice) -> Tensor | None:
    """The part of a bias or mask that applies to these sentences."""
    return x if x is None or len(x) == 1 else x[part]

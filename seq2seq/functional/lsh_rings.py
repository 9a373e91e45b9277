"""What a decoder with hashed attention remembers: the last two chunks of every bucket and round.

Letters as in `lsh`. A token with c tokens before it in its bucket reads those of the numbers
(c // m - 1) m ... c - 1: 2 m places a bucket, taken in turn, hold all that can still be read.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.scores import dot
from seq2seq.functional.softmax import explicit_attention


class Rings(NamedTuple):
    """The state of N rows, of a size that does not grow with the tokens."""

    keys: Tensor  # (N, H, R, buckets, 2 m, D)
    values: Tensor  # (N, H, R, buckets, 2 m, M)
    positions: Tensor  # (N, H, R, buckets, 2 m), whole numbers
    counts: Tensor  # (N, H, R, buckets), whole numbers: tokens so far


class Near(NamedTuple):
    """What a token may read: the W = R 2 m places of its buckets."""

    keys: Tensor  # (N, H, W, D)
    values: Tensor  # (N, H, W, M)
    positions: Tensor  # (N, H, W + 1), its own the last
    seen: Tensor  # (N, H, W): is there something in its own chunk or the one before?


def empty_rings(k: Tensor, v: Tensor, rounds: int, num_buckets: int, chunk: int) -> Rings:
    """Rings that hold nothing yet, for keys (N, H, T, D) and values (N, H, T, M) like these."""
    size = (*k.shape[:2], rounds, num_buckets, 2 * chunk)
    positions = torch.zeros(size, dtype=torch.long, device=k.device)
    return Rings(
        k.new_zeros(*size, k.shape[-1]),
        v.new_zeros(*size, v.shape[-1]),
        positions,
        torch.zeros_like(positions[..., 0]),
    )


def read_rings(rings: Rings, buckets: Tensor) -> Near:
    """What the next token, whose buckets (N, H, R) are from `hash_buckets`, may read."""
    places = rings.keys.shape[-2]
    chunk = places // 2
    ring = rings_of(buckets, rings)
    keys, values, positions = (
        x.flatten(0, 3).index_select(0, ring.flatten()).view(*ring.shape, *x.shape[4:])
        for x in rings[:3]
    )
    count = rings.counts.gather(-1, buckets[..., None])  # (N, H, R, 1)
    # Of the tokens that a place has had, the last is this far behind the start of the own chunk,
    # or, by 2 m more, before it.
    turn = (torch.arange(places, device=buckets.device) - count // chunk * chunk) % places
    seen = torch.where(turn < chunk, turn < count % chunk, count >= chunk)
    here = rings.counts[:, :, 0].sum(-1, keepdim=True)  # (N, H, 1)
    return Near(
        keys.flatten(2, 3),
        values.flatten(2, 3),
        torch.cat((positions.flatten(2), here), dim=-1),
        seen.flatten(2),
    )


def write_rings(rings: Rings, k: Tensor, v: Tensor, buckets: Tensor) -> None:
    """Put a token, k (N, H, D) and v (N, H, M), into its buckets (N, H, R), in place."""
    count = rings.counts.gather(-1, buckets[..., None])
    places = rings.keys.shape[-2]
    slot = (rings_of(buckets, rings) * places + count[..., 0] % places).flatten()
    here = rings.counts[:, :, 0].sum(-1)
    for ring, new in zip(rings[:3], (k, v, here), strict=True):
        repeated = new[:, :, None].expand(*buckets.shape, *new.shape[2:])
        ring.flatten(0, 4).index_copy_(0, slot, repeated.flatten(0, 2))
    rings.counts.scatter_(-1, buckets[..., None], count + 1)


def rings_of(buckets: Tensor, rings: Rings) -> Tensor:
    """The numbers of the rings of buckets (N, H, R), counted over all rows, heads and rounds."""
    first = torch.arange(buckets.numel(), device=buckets.device).view_as(buckets)
    return first * rings.counts.shape[-1] + buckets


def attend_near(
    q: Tensor, v: Tensor, near: Near, *, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The attention of a token to what is near it: one softmax over all rounds, in which a key that
    is met twice stands twice; to itself if there is nothing.

    Args:
        q: (N, H, D).   v: its own value, (N, H, M).
        bias: added to the scores, (N, H, W).
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: out (N, H, M), and its weights before dropout (N, H, W + 1), its own the last.
    """
    out, weights = explicit_attention(
        dot(q[:, :, None], near.keys),
        near.values,
        mask=near.seen[:, :, None],
        bias=None if bias is None else bias[:, :, None],
        dropout=dropout,
    )
    alone = (~near.seen.any(-1, keepdim=True)).to(v.dtype)
    weights = torch.cat((weights[:, :, 0], alone.to(weights.dtype)), dim=-1)
    return out[:, :, 0] + drop(alone, dropout) * v, weights

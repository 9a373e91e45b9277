"""The memory of a decoder with hashed attention: the last two chunks of every bucket and round.

Letters as in `lsh`. A token with c tokens before it in its bucket reads the last of them, from
number (c // m - 1) m to c - 1: a ring of 2 m slots a bucket holds all that can still be read.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.scores import dot
from seq2seq.functional.softmax import explicit_attention


class Rings(NamedTuple):
    """The state of N rows, of a size that does not grow with the length."""

    keys: Tensor  # (N, H, R, buckets, 2 m, D)
    values: Tensor  # (N, H, R, buckets, 2 m, M)
    positions: Tensor  # (N, H, R, buckets, 2 m), integers
    counts: Tensor  # (N, H, R, buckets), integers: tokens so far


class Near(NamedTuple):
    """The tokens near another one: the W = R 2 m slots of its buckets."""

    keys: Tensor  # (N, H, W, D)
    values: Tensor  # (N, H, W, M)
    positions: Tensor  # (N, H, W + 1), the token itself last
    seen: Tensor  # (N, H, W): whether the slot holds a token of its chunk or the one before


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
    """The tokens near the next one, whose buckets (N, H, R) are from `hash_buckets`."""
    slots = rings.keys.shape[-2]
    chunk = slots // 2
    ring = ring_index(buckets, rings)
    keys, values, positions = (
        x.flatten(0, 3).index_select(0, ring.flatten()).view(*ring.shape, *x.shape[4:])
        for x in rings[:3]
    )
    count = rings.counts.gather(-1, buckets[..., None])  # (N, H, R, 1)
    # The last token written to a slot is this far after the start of the current chunk, or 2 m less
    # than that, before it.
    turn = (torch.arange(slots, device=buckets.device) - count // chunk * chunk) % slots
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
    slots = rings.keys.shape[-2]
    slot = (ring_index(buckets, rings) * slots + count[..., 0] % slots).flatten()
    here = rings.counts[:, :, 0].sum(-1)
    for ring, new in zip(rings[:3], (k, v, here), strict=True):
        repeated = new[:, :, None].expand(*buckets.shape, *new.shape[2:])
        ring.flatten(0, 4).index_copy_(0, slot, repeated.flatten(0, 2))
    rings.counts.scatter_(-1, buckets[..., None], count + 1)


def ring_index(buckets: Tensor, rings: Rings) -> Tensor:
    """The flat indices of the rings of buckets (N, H, R), over all rows, heads and rounds."""
    first = torch.arange(buckets.numel(), device=buckets.device).view_as(buckets)
    return first * rings.counts.shape[-1] + buckets


def attend_near(
    q: Tensor, v: Tensor, near: Near, *, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """The attention of a token to what is near it: one softmax over all rounds, where a key seen in
    two rounds counts twice; to itself if there is nothing.

    Args:
        q: (N, H, D).   v: the token's value, (N, H, M).
        bias: terms added to the scores, (N, H, W).
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: (N, H, M).
    """
    out, _ = explicit_attention(
        dot(q[:, :, None], near.keys),
        near.values,
        mask=near.seen[:, :, None],
        bias=None if bias is None else bias[:, :, None],
        dropout=dropout,
    )
    alone = (~near.seen.any(-1, keepdim=True)).to(v.dtype)
    return out[:, :, 0] + drop(alone, dropout) * v

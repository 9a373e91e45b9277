"""Decoder memory of LSH attention: the last two chunks of every bucket in every round.

The letters are those of `lsh`. A token with c tokens before it in its bucket reads the most recent
of these, numbers (c // m - 1) m to c - 1. A ring of 2 m slots per bucket therefore holds all tokens
that can still be read.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.scores import dot
from seq2seq.functional.softmax import explicit_attention


class Rings(NamedTuple):
    """The rings of N rows, whose size does not grow with the length."""

    keys: Tensor  # (N, H, R, buckets, 2 m, D)
    values: Tensor  # (N, H, R, buckets, 2 m, M)
    positions: Tensor  # (N, H, R, buckets, 2 m), integers
    counts: Tensor  # (N, H, R, buckets), integers: tokens written so far


class Near(NamedTuple):
    """The contents of a token's buckets: W = R 2 m slots."""

    keys: Tensor  # (N, H, W, D)
    values: Tensor  # (N, H, W, M)
    positions: Tensor  # (N, H, W + 1), the token itself last
    seen: Tensor  # (N, H, W): True if the slot holds a token of its chunk or the one before


def empty_rings(k: Tensor, v: Tensor, rounds: int, num_buckets: int, chunk: int) -> Rings:
    """Make empty rings for keys (N, H, T, D) and values (N, H, T, M) of these shapes and types."""
    size = (*k.shape[:2], rounds, num_buckets, 2 * chunk)
    positions = torch.zeros(size, dtype=torch.long, device=k.device)
    return Rings(
        k.new_zeros(*size, k.shape[-1]),
        v.new_zeros(*size, v.shape[-1]),
        positions,
        torch.zeros_like(positions[..., 0]),
    )


def read_rings(rings: Rings, buckets: Tensor) -> Near:
    """Read the buckets (N, H, R) of the next token, which `hash_buckets` returned."""
    slots = rings.keys.shape[-2]
    chunk = slots // 2
    ring = ring_index(buckets, rings)
    keys, values, positions = (
        x.flatten(0, 3).index_select(0, ring.flatten()).view(*ring.shape, *x.shape[4:])
        for x in rings[:3]
    )
    count = rings.counts.gather(-1, buckets[..., None])  # (N, H, R, 1)
    # `turn` is the distance of a slot from the first slot of the current chunk, around the ring.
    # The last token written to the slot has that place in this chunk, or one 2 m earlier.
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
    """Write a token, k (N, H, D) and v (N, H, M), to its buckets (N, H, R), in place."""
    count = rings.counts.gather(-1, buckets[..., None])
    slots = rings.keys.shape[-2]
    slot = (ring_index(buckets, rings) * slots + count[..., 0] % slots).flatten()
    here = rings.counts[:, :, 0].sum(-1)
    for ring, new in zip(rings[:3], (k, v, here), strict=True):
        repeated = new[:, :, None].expand(*buckets.shape, *new.shape[2:])
        ring.flatten(0, 4).index_copy_(0, slot, repeated.flatten(0, 2))
    rings.counts.scatter_(-1, buckets[..., None], count + 1)


def ring_index(buckets: Tensor, rings: Rings) -> Tensor:
    """Flat indices, over all rows, heads and rounds, of the rings of these buckets (N, H, R)."""
    first = torch.arange(buckets.numel(), device=buckets.device).view_as(buckets)
    return first * rings.counts.shape[-1] + buckets


def attend_near(
    q: Tensor, v: Tensor, near: Near, *, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Attention of a token to the contents of its buckets.

    There is one softmax over all rounds, in which a key seen in two rounds counts twice. A token
    that sees no other gets its own value.

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

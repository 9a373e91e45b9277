"""What a decoder with hashed attention remembers: the last two chunks of every bucket and round.

Letters as in `lsh`. A token with c tokens before it in its bucket reads those of the numbers
(c // m - 1) m ... c - 1: 2 m places a bucket, taken in turn, hold all that can still be read.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.scores import dot
from seq2seq.functional.softmax import explicit_attention


class Rings(NamedTuple):
    """The state of N rows, of a size that does not grow with the tokens."""

    keys: Tensor  # (N, H, R, buckets, 2 m, D)
    values: Tensor  # (N, H, R, buckets, 2 m, M)
    positions: Tensor  # (N, H, R, buckets, 2 m), whole numbers
    counts: Tensor  # (N, H, R, buckets), whole numbers: tokens so far


class Near(NamedTuple):
    """What one token may read: W = R 2 m places of its buckets, and last itself."""

    keys: Tensor  # (N, H, W + 1, D)
    values: Tensor  # (N, H, W + 1, M)
    positions: Tensor  # (N, H, W + 1)
    seen: Tensor  # (N, H, W + 1)


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


def advance_rings(rings: Rings, k: Tensor, v: Tensor, buckets: Tensor) -> Near:
    """Put one token into its bucket of every round, in place, and say what it may read.

    Args:
        rings: what came before it.
        k: (N, H, D).   v: (N, H, M).   buckets: (N, H, R), from `hash_buckets`.
    """
    N, H, R = buckets.shape
    chunk = rings.keys.shape[-2] // 2
    row, head, turn = (torch.arange(n, device=k.device) for n in (N, H, R))
    bucket = (row[:, None, None], head[:, None], turn, buckets)
    position = rings.counts[:, :, 0].sum(-1)  # (N, H)
    count = rings.counts[bucket][..., None]  # (N, H, R, 1)
    # How far behind the start of the token's own chunk a place comes in its turn.
    place = torch.arange(2 * chunk, device=k.device)
    turn_of = (place - count // chunk * chunk) % (2 * chunk)
    seen = torch.where(turn_of < chunk, turn_of < count % chunk, count >= chunk)
    seen = seen.flatten(2)
    near = Near(
        torch.cat((rings.keys[bucket].flatten(2, 3), k[:, :, None]), dim=2),
        torch.cat((rings.values[bucket].flatten(2, 3), v[:, :, None]), dim=2),
        torch.cat((rings.positions[bucket].flatten(2), position[..., None]), dim=2),
        torch.cat((seen, ~seen.any(-1, keepdim=True)), dim=2),
    )
    slot = (*bucket, count[..., 0] % (2 * chunk))
    rings.keys[slot] = k[:, :, None]
    rings.values[slot] = v[:, :, None]
    rings.positions[slot] = position[..., None]
    rings.counts[bucket] = count[..., 0] + 1
    return near


def attend_near(
    q: Tensor, near: Near, *, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The attention of one token to what is near it: all rounds are one softmax.

    Args:
        q: (N, H, D).
        bias: added to the scores, (N, H, W + 1).
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: out (N, H, M), and its weights before dropout (N, H, W + 1).
    """
    out, weights = explicit_attention(
        dot(q[:, :, None], near.keys),
        near.values,
        mask=near.seen[:, :, None],
        bias=None if bias is None else bias[:, :, None],
        dropout=dropout,
    )
    return out[:, :, 0], weights[:, :, 0]

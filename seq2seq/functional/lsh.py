"""LSH attention, between tokens whose queries hash to the same bucket.

There are two forms: one with T x T weights, which defines it, and one by sorting, whose memory
grows with T. Additional letters: R rounds of hashing, m tokens of a chunk, C chunks, W keys that a
chunk reads (2 m, or 3 m if it also reads the chunk after it).
"""

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.positions import distances
from seq2seq.functional.scores import dot
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import causal_mask, masked_softmax, upcast

# Elements of keys and values that are gathered at once: 16 MiB of float32. Larger blocks would be
# allocated and freed by the operating system each time, which takes longer than the computation.
MAX_ELEMENTS = 2**22


def unit_vectors(x: Tensor) -> Tensor:
    """x / |x| over the last axis. A zero vector stays zero, and its gradient is zero."""
    wide = upcast(x)
    square = wide.square().sum(-1, keepdim=True)
    there = square > 0
    return (wide * square.where(there, 1).rsqrt()).where(there, 0).to(x.dtype)


@torch.no_grad()
def hash_buckets(x: Tensor, rotations: Tensor) -> Tensor:
    """The bucket of each vector: argmax [x R ; -x R], the nearest of the random directions.

    The smaller the angle between two vectors, the more often they share a bucket; their lengths do
    not matter. Of equal maxima the first wins. There is no gradient.

    Args:
        x: (B, H, T, D), hashed in float32 at least.
        rotations: normally distributed directions R, (R, H, D, buckets / 2).

    Returns: integers from 0 to buckets - 1, (B, H, R, T).
    Source: Andoni et al. 2015, arXiv:1509.02897; Kitaev et al. 2020, arXiv:2001.04451.
    """
    check("B H T D, R H D half", x=x, rotations=rotations)
    with torch.autocast(x.device.type, enabled=False):
        wide = upcast(x)
        turned = torch.einsum("bhtd,rhdn->bhrtn", wide, rotations.to(wide.dtype))
    return torch.cat((turned, -turned), dim=-1).argmax(-1)


def rounds_seen(
    buckets: Tensor, chunk: int, *, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Number of rounds in which each query sees each key: the definition, for small T.

    In each round the tokens of a bucket are put in order of position and cut into chunks of m: a
    token with c real tokens before it in its bucket is in chunk c // m. It sees the other tokens of
    its bucket that are in its own chunk or the one before. With `causal` it sees only the earlier
    ones of these; otherwise it also sees the chunk after its own. A token sees itself, once, only
    if it sees no other token in any round.

    The chunk of a token thus depends only on the tokens before it, and never on padding.

    Args:
        buckets: (B, H, R, T), from `hash_buckets`.
        chunk: m.
        mask: (B, T), True = real.
        causal: True if no token sees a later one.

    Returns: integers, (B, H, T, T).
    """
    T, device = buckets.shape[-1], buckets.device
    alike = buckets[..., :, None] == buckets[..., None, :]  # (B, H, R, T, T)
    if mask is not None:
        alike = alike & (mask[:, :, None] & mask[:, None, :])[:, None, None]
    before = causal_mask(T, T, -1, device=device)
    chunks = (alike & before).sum(-1) // chunk  # (B, H, R, T)
    ahead = chunks[..., None, :] - chunks[..., :, None]
    seen = alike & (ahead >= -1) & (ahead <= 1)
    seen = seen & (before if causal else ~torch.eye(T, dtype=torch.bool, device=device))
    count = seen.sum(2)
    alone = ~count.any(-1)
    if mask is not None:
        alone = alone & mask[:, None]
    return count + alone.long().diag_embed()


def lsh_weights(
    q: Tensor,
    k: Tensor,
    buckets: Tensor,
    chunk: int,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Weights of `lsh_attention`, which has the same arguments.

        a_ij = n_ij e^(e_ij) / sum_j n_ij e^(e_ij),   n from `rounds_seen`

    Returns: (B, H, T, T) in the type of `q`.
    """
    T = q.shape[2]
    count = rounds_seen(buckets, chunk, mask=mask, causal=causal)
    wide = upcast(dot(q, k))
    added = count.clamp(min=1).to(wide.dtype).log()
    if bias is not None:
        added = added + bias[:, distances(torch.arange(T, device=q.device), T) + T - 1]
    return masked_softmax(wide, count > 0, added).to(q.dtype)


class BucketLayout(NamedTuple):
    """The tokens of a round, sorted by bucket and position; no chunk is shared by two buckets."""

    tokens: Tensor  # (B, H, C, m): the token in each slot; T = the slot is empty
    slots: Tensor  # (B, H, T): the slot of each token, from 0 to C m - 1
    joined: Tensor  # (B, H, C): True if the chunk before this one holds the same bucket
    alone: Tensor  # (B, H, T): True if the token sees only itself; undefined for padding


def sort_into_chunks(
    buckets: Tensor, num_buckets: int, chunk: int, mask: Tensor | None, causal: bool
) -> BucketLayout:
    """Sort tokens by (bucket, position) and start every bucket (B, H, T) with a new chunk.

    There are always `max_chunks` chunks, so that no size depends on the hashes. Padding gets a
    bucket of its own after all others, which no token reads.
    """
    T, device = buckets.shape[-1], buckets.device
    here = torch.arange(T, device=device).expand_as(buckets)
    index = here
    if mask is not None:
        hidden = ~mask[:, None]
        buckets, index = buckets.masked_fill(hidden, num_buckets), here.masked_fill(hidden, T)
    ordered, order = buckets.sort(dim=-1, stable=True)
    borders = torch.arange(num_buckets + 2, device=device).repeat(*buckets.shape[:-1], 1)
    starts = torch.searchsorted(ordered, borders)  # start of every bucket, and end of the last one
    sizes = starts.diff()
    chunks = (sizes + chunk - 1) // chunk
    ends = chunks.cumsum(-1)
    rank = here - starts.gather(-1, ordered)
    slots = (ends - chunks).gather(-1, ordered) * chunk + rank
    alone = rank == 0 if causal else sizes.gather(-1, ordered) == 1
    slots, alone = (torch.zeros_like(x).scatter(-1, order, x) for x in (slots, alone))
    C = max_chunks(T, num_buckets + (mask is not None), chunk)
    tokens = here.new_full((*buckets.shape[:-1], C * chunk), T).scatter(-1, slots, index)
    # A bucket begins where the chunks of earlier buckets end; the first one begins at 0.
    begins = here.new_zeros((*buckets.shape[:-1], C + 1), dtype=torch.bool).scatter(-1, ends, True)
    begins[..., 0] = True
    return BucketLayout(tokens.unflatten(-1, (C, chunk)), slots, ~begins[..., :C], alone)


def max_chunks(T: int, num_buckets: int, chunk: int) -> int:
    """Most chunks that T tokens in `num_buckets` buckets need: each bucket ends with one token."""
    return (T + num_buckets * (chunk - 1)) // chunk


def count_scores(T: int, num_buckets: int, chunk: int, causal: bool) -> int:
    """Number of scores that `lsh_attention` computes in a round, per head."""
    chunk = max(1, min(chunk, T))
    return max_chunks(T, num_buckets, chunk) * chunk * (2 if causal else 3) * chunk


def lsh_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    buckets: Tensor,
    num_buckets: int,
    chunk: int,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax attention of every token to the tokens that it sees, as defined by `rounds_seen`.

        out_i = sum_r e^(z_ir - z_i) sum_(j seen in round r) e^(e_ij - z_ir) v_j,
        z_ir = logsumexp_(j seen in round r) e_ij,   z_i = logsumexp_r z_ir

    A key that is seen in two rounds counts twice. A token that sees no other token gets its own
    value.

    Args:
        q, k: queries and keys of the same tokens, (B, H, T, D).   v: (B, H, T, M).
        buckets: bucket numbers below `num_buckets`, (B, H, R, T).
        chunk: m.
        mask: (B, T), True = real.
        bias: terms added to the scores, one for each distance j - i = 1 - T ... T - 1,
            (H, 2 T - 1).
        causal: True if no token sees a later one.
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: (B, H, T, M), zeros for padding.
    Source: Kitaev et al. 2020, arXiv:2001.04451, except that chunks are counted inside a bucket and
    weights are not divided by the number of rounds in which a key is seen.
    """
    sizes = check("B H T D, B H T D, B H T M, B H R T", q=q, k=k, v=v, buckets=buckets)
    T = sizes["T"]
    chunk = max(1, min(chunk, T))  # a longer chunk holds the whole sentence
    # One round at a time, so that only one round's copies of queries, keys and values are held.
    layouts = [sort_into_chunks(one, num_buckets, chunk, mask, causal) for one in buckets.unbind(2)]
    answers = [attend_round(q, k, v, one, bias, causal, dropout) for one in layouts]
    alone = torch.stack([one.alone for one in layouts], dim=-1)  # (B, H, T, R)
    shares = masked_softmax(torch.stack([z for _, z in answers], dim=-1), ~alone).unbind(-1)
    merged = sum(share[..., None] * out for share, (out, _) in zip(shares, answers, strict=True))
    alone = alone.all(-1)
    if mask is not None:
        alone = alone & mask[:, None]
    return (merged + drop(alone[..., None].to(v.dtype), dropout) * v).to(v.dtype)


def attend_round(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: BucketLayout,
    bias: Tensor | None,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Softmax attention of one round.

    Returns: out (B, H, T, M), zeros for a token that sees no other, and the logsumexp z (B, H, T).
    """
    T, chunk = q.shape[2], layout.tokens.shape[-1]
    at = layout.tokens.flatten(2).clamp(max=T - 1)  # (B, H, C m); empty slots read the last token
    queries, keys, values = (gather_tokens(x, at).view(-1, chunk, x.shape[-1]) for x in (q, k, v))
    added, seen = chunk_bias(bias, at, chunk, causal), chunk_mask(layout, causal)
    near = zip(neighbour_chunks(keys, causal), neighbour_chunks(values, causal), strict=True)
    columns = [queries, added, seen, *itertools.chain(*near)]
    n = max(1, MAX_ELEMENTS // max(1, seen.shape[-1] * (k.shape[-1] + v.shape[-1])))
    outs, zs = [], []
    for query, plus, see, *parts in zip(*(x.split(n) for x in columns), strict=True):
        key, value = torch.cat(parts[::2], dim=1), torch.cat(parts[1::2], dim=1)
        scores = upcast(query @ key.mT) + plus
        weights = masked_softmax(scores, see).to(value.dtype)
        outs.append(drop(weights, dropout) @ value)
        zs.append(scores.masked_fill(~see, torch.finfo(scores.dtype).min).logsumexp(-1))
    out = gather_tokens(torch.cat(outs).view(*at.shape, v.shape[-1]), layout.slots)
    return out, torch.cat(zs).view(at.shape).gather(-1, layout.slots)


def gather_tokens(x: Tensor, at: Tensor) -> Tensor:
    """Take the tokens of x (B, H, T, D) at indices (B, H, n): (B, H, n, D)."""
    B, H, T, D = x.shape
    rows = torch.arange(B * H, device=x.device).view(B, H, 1) * T + at
    return x.reshape(-1, D).index_select(0, rows.flatten()).view(*at.shape, D)


def neighbour_chunks(x: Tensor, causal: bool) -> list[Tensor]:
    """The chunks that each chunk of x (X, m, ...) reads: the one before it, itself and, unless
    `causal`, the one after it.
    """
    empty = torch.zeros_like(x[:1])
    before, after = torch.cat((empty, x[:-1])), torch.cat((x[1:], empty))
    return [before, x] if causal else [before, x, after]


def chunk_mask(layout: BucketLayout, causal: bool) -> Tensor:
    """Mask of the keys that each slot sees among the W keys of its chunk, (B H C, m, W)."""
    T, m = layout.slots.shape[-1], layout.tokens.shape[-1]
    taken = neighbour_chunks((layout.tokens < T).view(-1, m), causal)
    joined = layout.joined.view(-1, 1)
    same = [joined, torch.ones_like(joined), joined.roll(-1, 0)][: len(taken)]
    there = torch.cat([a & b for a, b in zip(taken, same, strict=True)], dim=1)
    query = torch.arange(m, device=joined.device)[:, None]
    key = torch.arange(there.shape[1], device=joined.device) - m
    return there[:, None] & (key < query if causal else key != query)


def chunk_bias(bias: Tensor | None, at: Tensor, chunk: int, causal: bool) -> Tensor:
    """Bias of the scores between the tokens of each chunk and the tokens that it reads.

    Args:
        bias: terms for all distances, (H, 2 T - 1).
        at: token in each slot, (B, H, C m).

    Returns: (B H C, m, W), or zeros that broadcast to it if there is no bias.
    """
    B, H, _ = at.shape
    tokens = at.reshape(-1, chunk)
    if bias is None:
        return torch.zeros(len(tokens), 1, 1, device=at.device)
    distance = torch.cat(neighbour_chunks(tokens, causal), dim=1)[:, None] - tokens[:, :, None]
    heads = torch.arange(H, device=at.device)[:, None, None, None]
    gathered = bias[heads, distance.unflatten(0, (B, H, -1)) + bias.shape[1] // 2]
    return gathered.flatten(0, 2)

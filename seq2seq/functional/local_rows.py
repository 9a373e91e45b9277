"""Local attention for rows that stand at different positions, written out.

The few queries of a decoding step meet all keys that are held. Arguments and results are those of
`local`, except that `keys.start` is (B,), that keys below position 0 do not exist, and that a query
always reads only itself and what stands before it.
"""

from typing import Literal

import torch
from torch import Tensor

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.local import Keys, Weighing
from seq2seq.functional.scores import dot
from seq2seq.functional.softmax import attend, masked_softmax, widened


def page_local_rows(
    q: Tensor,
    keys: Keys,
    how: Weighing,
    *,
    page: int,
    radius: int,
    form: Literal["joint", "per_page", "mean"] = "joint",
) -> tuple[Tensor, Tensor | None]:
    """`local.page_local_attention` in the decoder, each row at its own position."""
    there = window_positions(keys)
    here = queries_of(there, q.shape[2])
    apart = here // page - there // page
    past = (there >= 0) & (there <= here)
    scores = scores_of(q, keys.k, how, there - here)
    if form == "joint":
        weights = masked_softmax(scores, past & (apart <= radius))
    else:
        pages = torch.stack([past & (apart == pages) for pages in range(radius + 1)])
        weights = masked_softmax(scores.expand(len(pages), *scores.shape), pages).sum(0)
        if form == "mean":
            weights = weights / pages.any(-1, keepdim=True).sum(0).clamp(min=1)
    return attend_windows(weights, keys.v, there, how)


def window_rows(
    q: Tensor, keys: Keys, first: Keys, how: Weighing, *, radius: int
) -> tuple[Tensor, Tensor | None]:
    """`local.window_attention` in the decoder, each row at its own position."""
    near = window_positions(keys)
    here = queries_of(near, q.shape[2])
    F = first.k.shape[2]
    far = torch.arange(F, device=q.device).expand(*near.shape[:-1], F)
    visible = torch.cat((far <= here, (near >= F) & (near <= here) & (here - near <= radius)), -1)
    there = torch.cat((far, near), dim=-1)
    k, v = torch.cat((first.k, keys.k), dim=2), torch.cat((first.v, keys.v), dim=2)
    weights = masked_softmax(scores_of(q, k, how, there - here), visible)
    return attend_windows(weights, v, there, how)


def window_positions(keys: Keys) -> Tensor:
    """The positions of the keys, (B, 1, 1, S)."""
    assert isinstance(keys.start, Tensor)
    here = keys.start[:, None] + torch.arange(keys.k.shape[2], device=keys.k.device)
    return here[:, None, None]


def queries_of(there: Tensor, queries: int) -> Tensor:
    """The positions of the queries, which are the last of the keys: (B, 1, T, 1)."""
    return there[..., -queries:].transpose(-2, -1)


def scores_of(q: Tensor, k: Tensor, how: Weighing, distance: Tensor) -> Tensor:
    """(B, H, T, S) in float32 at least, with the bias of the distances (B, 1, T, S)."""
    scores = widened(dot(q, k, how.scale))
    added = None if how.bias is None else how.bias(distance[:, 0])
    return scores if added is None else scores + added.to(scores.dtype)


def attend_windows(
    weights: Tensor, v: Tensor, there: Tensor, how: Weighing
) -> tuple[Tensor, Tensor | None]:
    """The output, and the weights of all positions (B, H, T, S)."""
    out = attend(drop(weights, how.dropout), v)
    if not how.need_weights:
        return out, None
    index = there.clamp(min=0)  # keys below have weight 0
    everywhere = weights.new_zeros(*weights.shape[:3], int(index.max()) + 1)
    return out, everywhere.scatter_add(-1, index.expand_as(weights), weights).to(v.dtype)

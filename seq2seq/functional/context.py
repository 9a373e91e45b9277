"""Means over rows, prefixes and groups of tokens, how they change keys or queries (context
attention), and the words and sentences that tokens are grouped by.

Means and sums are in float32 at least, whatever the states are in. The mean over no real token is
zero, and so are its gradients.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast


class PrefixSums(NamedTuple):
    """The parts of a mean over a prefix: all that a decoder remembers of it."""

    total: Tensor  # (N, E)
    tokens: Tensor  # (N, 1), count of the real ones


def modulate(x: Tensor, c: Tensor) -> Tensor:
    """x * (1 + c): c = 0 changes nothing. For keys, q . (k * (1 + c)) = q^T diag(1 + c) k."""
    return x * (1 + c)


def gate(x: Tensor, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """(1 - l) x + l c, a mixture with the context, l = sigmoid(x . a + c . b) for each head.

    Args:
        x: queries or keys, (N, T, heads, D).   c: their context, (N, T or 1, heads, D).
        a, b: (heads, D).

    Returns: (N, T, heads, D).
    Source: Yang et al. 2019, arXiv:1902.05766.
    """
    score = (x * a).sum(-1, keepdim=True) + (c * b).sum(-1, keepdim=True)
    share = score.sigmoid().to(x.dtype)
    return (1 - share) * x + share * c


def row_means(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean over the real tokens of each row.

    Args:
        x: (N, S, E).   mask: (N, S), True = real; None = all are.

    Returns: (N, 1, E).
    """
    values, real = summands(x, mask)
    return values.sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


def prefix_means(
    x: Tensor, mask: Tensor | None = None, before: PrefixSums | None = None
) -> tuple[Tensor, PrefixSums]:
    """For each token the mean over the real ones up to itself: what a decoder may know.

    Args:
        x: (N, S, E).   mask: (N, S), True = real; None = all are.
        before: sums over the earlier tokens; None = there are none.

    Returns: means (N, S, E), and the sums after the last token.
    """
    values, real = summands(x, mask)
    totals, counts = values.cumsum(1), real.cumsum(1)
    if before is not None:
        totals, counts = totals + before.total[:, None], counts + before.tokens[:, None]
    return totals / counts.clamp(min=1), PrefixSums(totals[:, -1], counts[:, -1])


def group_means(
    x: Tensor, groups: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """For each token the mean over the real members of its group.

    Args:
        x: (N, S, E).   mask: (N, S), True = real; None = all are.
        groups: (N, S), integers; tokens of a row with the same id are one group, wherever they
            stand.
        causal: whether the mean is over members up to the token itself only.

    Returns: (N, S, E).
    """
    check("N S E, N S", x=x, groups=groups)
    values, real = summands(x, mask)
    # Sorted by group, each in order of position, the members of a group are an interval.
    sorted_groups, order = groups.sort(dim=1, stable=True)
    ends, starts = intervals(sorted_groups)
    if causal:
        ends = torch.arange(1, groups.shape[1] + 1, device=x.device).expand_as(groups)
    members = torch.cat((values, real), dim=-1).gather(1, expand_index(order, x.shape[-1] + 1))
    # A sum over an interval is a difference of two prefix sums. In float64, since a word's sum may
    # be small beside the prefix.
    sums = torch.nn.functional.pad(members.double().cumsum(1), (0, 0, 1, 0))
    width = sums.shape[-1]
    sums = sums.gather(1, expand_index(ends, width)) - sums.gather(1, expand_index(starts, width))
    means = (sums[..., :-1] / sums[..., -1:].clamp(min=1)).to(values.dtype)
    return means.gather(1, expand_index(order.argsort(1), x.shape[-1]))


def intervals(groups: Tensor) -> tuple[Tensor, Tensor]:
    """For ascending ids (N, S): the end (exclusive) and the start of the run that each is in."""
    starts = torch.searchsorted(groups, groups, side="left")
    return torch.searchsorted(groups, groups, side="right"), starts


def expand_index(index: Tensor, width: int) -> Tensor:
    """Indices (N, S), expanded for `gather` on vectors: (N, S, width)."""
    return index[..., None].expand(-1, -1, width)


def summands(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The tokens in float32 at least, zero where the mask is False; and ones and zeros (N, S, 1)
    that count them.
    """
    wide = upcast(x)
    if mask is None:
        return wide, wide.new_ones(*x.shape[:2], 1)
    # Not a product with the mask: padding may hold infinities.
    return wide.masked_fill(~mask[..., None], 0), mask[..., None].to(wide.dtype)


def token_groups(ids: Tensor, marks: Tensor) -> Tensor:
    """The index of the word, and if known of the sentence, that each token is in.

    A word starts at a piece that begins one, or that follows the end of one. A sentence includes
    all pieces that end it, so that three dots in a row end one sentence.

    Args:
        ids: (B, S).
        marks: (V, 2 or 3) bool, for each id: does it begin a word; does it end a word; does it end
            a sentence.

    Returns: (B, S, 1 or 2), counted from 0 or 1, ascending along a row.
    """
    begins, closes, *ends = marks[ids].unbind(-1)
    levels = [begins | shift_right(closes)]
    levels += [shift_right(end) & ~end for end in ends]
    return torch.stack(levels, dim=-1).cumsum(1)


def shift_right(x: Tensor) -> Tensor:
    """The left neighbour of each entry, (B, S) bool; False for the first."""
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)

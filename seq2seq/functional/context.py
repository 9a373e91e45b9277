"""Context attention: means over rows, prefixes and groups of tokens, their effect on keys or
queries, and the words and sentences by which tokens are grouped.

Means and sums are in float32 at least, whatever the type of the states. If there is no real token
to average, the mean is zero, and so are its gradients.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast


class PrefixSums(NamedTuple):
    """The sum and count behind a mean over a prefix: all that a decoder remembers of it."""

    total: Tensor  # (N, E)
    tokens: Tensor  # (N, 1), number of real tokens


def modulate(x: Tensor, c: Tensor) -> Tensor:
    """x * (1 + c): c = 0 changes nothing. For keys, q . (k * (1 + c)) = q^T diag(1 + c) k."""
    return x * (1 + c)


def gate(x: Tensor, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Mix x with its context: (1 - l) x + l c, where l = sigmoid(x . a + c . b) for each head.

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
    """Mean over the real tokens of each row.

    Args:
        x: (N, S, E).   mask: (N, S), True = real; None = all are real.

    Returns: (N, 1, E).
    """
    values, real = summands(x, mask)
    return values.sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


def prefix_means(
    x: Tensor, mask: Tensor | None = None, before: PrefixSums | None = None
) -> tuple[Tensor, PrefixSums]:
    """Mean over the real tokens up to and including each token: all that a decoder may know.

    Args:
        x: (N, S, E).   mask: (N, S), True = real; None = all are real.
        before: sums over the earlier tokens; None if there are no earlier tokens.

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
    """Mean, for each token, over the real tokens of its group.

    Args:
        x: (N, S, E).   mask: (N, S), True = real; None = all are real.
        groups: group ids (N, S), integers; all tokens of a row with the same id form one group,
            even if they are not adjacent.
        causal: True to include only the members up to the token itself.

    Returns: (N, S, E).
    """
    check("N S E, N S", x=x, groups=groups)
    values, real = summands(x, mask)
    # After a stable sort by group, the members of a group are adjacent and in order of position.
    sorted_groups, order = groups.sort(dim=1, stable=True)
    ends, starts = intervals(sorted_groups)
    if causal:
        ends = torch.arange(1, groups.shape[1] + 1, device=x.device).expand_as(groups)
    members = torch.cat((values, real), dim=-1).gather(1, expand_index(order, x.shape[-1] + 1))
    # A sum over an interval is a difference of two prefix sums. float64 is needed because the sum
    # of a word may be small compared with the sum of the prefix.
    sums = torch.nn.functional.pad(members.double().cumsum(1), (0, 0, 1, 0))
    width = sums.shape[-1]
    sums = sums.gather(1, expand_index(ends, width)) - sums.gather(1, expand_index(starts, width))
    means = (sums[..., :-1] / sums[..., -1:].clamp(min=1)).to(values.dtype)
    return means.gather(1, expand_index(order.argsort(1), x.shape[-1]))


def intervals(groups: Tensor) -> tuple[Tensor, Tensor]:
    """End (exclusive) and start of the run of equal ids around each entry of sorted ids (N, S)."""
    starts = torch.searchsorted(groups, groups, side="left")
    return torch.searchsorted(groups, groups, side="right"), starts


def expand_index(index: Tensor, width: int) -> Tensor:
    """Expand indices (N, S) to (N, S, width), to `gather` whole vectors."""
    return index[..., None].expand(-1, -1, width)


def summands(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The tokens in float32 at least, zero where the mask is False; and the mask as numbers
    (N, S, 1), whose sum counts the real tokens.
    """
    wide = upcast(x)
    if mask is None:
        return wide, wide.new_ones(*x.shape[:2], 1)
    # Multiplying by the mask would give NaN where padding holds infinities.
    return wide.masked_fill(~mask[..., None], 0), mask[..., None].to(wide.dtype)


def token_groups(ids: Tensor, marks: Tensor) -> Tensor:
    """Index of the word that each token is in, and of its sentence if `marks` has sentence ends.

    A word starts at a piece that begins a word, or that follows the last piece of a word. A
    sentence includes all pieces that end it, so that three dots in a row end one sentence.

    Args:
        ids: token ids (B, S).
        marks: flags of each id, (V, 2 or 3) bool: begins a word; ends a word; ends a sentence.

    Returns: indices (B, S, 1 or 2), starting at 0 or 1 and ascending along a row.
    """
    begins, closes, *ends = marks[ids].unbind(-1)
    levels = [begins | shift_right(closes)]
    levels += [shift_right(end) & ~end for end in ends]
    return torch.stack(levels, dim=-1).cumsum(1)


def shift_right(x: Tensor) -> Tensor:
    """Shift (B, S) bool one place to the right; the first entry of a row becomes False."""
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)

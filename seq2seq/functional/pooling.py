"""Weights from before attention, without a softmax, for demonstrations and comparisons.

Each function returns weights (B, H, T, S) for `functional.attend`. Masked keys, and all keys of a
query that sees none, get 0.
"""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check


def normalise(similarities: Tensor, mask: Tensor | None = None) -> Tensor:
    """Similarities divided by their sum: the weights of Nadaraya-Watson regression.

    For similarities exp(e) the result is softmax(e), so that both agree for the Gaussian kernel.
    Scores that may be negative cannot be normalised in this way.

    Args:
        similarities: (B, H, T, S), all at least 0.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.

    Source: Nadaraya 1964, Theory of Probability and Its Applications 9; Watson 1964, Sankhya A 26.
    """
    if mask is not None:
        similarities = similarities.masked_fill(~mask, 0.0)
    total = similarities.sum(-1, keepdim=True)
    return similarities / torch.where(total > 0, total, 1.0)


def uniform(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """The same weight for every visible key, whatever the query and the key.

    Args:
        q: (B, H, T, D).   k: (B, G, S, C).
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
    """
    sizes = check("B H T D, B G S C", q=q, k=k)
    return normalise(q.new_ones([sizes[letter] for letter in "BHTS"]), mask)


def nearest(q: Tensor, k: Tensor, count: int, mask: Tensor | None = None) -> Tensor:
    """Weights of nearest-neighbour regression: 1 / count for the `count` visible keys nearest to
    the query, and 0 for all others.

    Of two keys at the same distance the earlier one is taken. A query that sees fewer keys takes
    all of them. Queries and keys get no gradient, since a small change of either does not change
    the neighbours.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.
        count: number of neighbours, at least 1.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
    """
    sizes = check("B H T D, B G S D", q=q, k=k)
    if count < 1:
        raise ValueError(f"count={count} should be at least 1")
    with torch.no_grad():
        keys = k.repeat_interleave(sizes["H"] // sizes["G"], dim=1)
        distance = (q[:, :, :, None] - keys[:, :, None]).square().sum(-1)
        if mask is not None:
            distance = distance.masked_fill(~mask, torch.inf)
        order = distance.argsort(dim=-1, stable=True)[..., :count]
        chosen = torch.zeros_like(distance).scatter(-1, order, 1.0)
        return normalise(chosen, mask)

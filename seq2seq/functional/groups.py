"""From piece ids to the words and sentences that the pieces are in."""

import torch
from torch import Tensor


def token_groups(ids: Tensor, marks: Tensor) -> Tensor:
    """The number of the word, and if known of the sentence, that each token is in.

    A word goes from a piece that begins one, or follows one that ends there, to the next. A
    sentence goes on through all pieces at its end, so that three dots in a row end one sentence.

    Args:
        ids: (B, S).
        marks: (V, 2 or 3) bool, for each id: begins a word; a word ends behind it; and ends a
            sentence.

    Returns: (B, S, 1 or 2), counted from 0 or 1, ascending along a row.
    """
    begins, closes, *ends = marks[ids].unbind(-1)
    levels = [begins | before(closes)]
    levels += [before(end) & ~end for end in ends]
    return torch.stack(levels, dim=-1).cumsum(1)


def before(x: Tensor) -> Tensor:
    """What stands one place to the left, (B, S) bool; False before the first."""
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)

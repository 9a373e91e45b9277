"""Links for which source words compete: right also for a model that was not trained to align."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.alignment.links import Link, Word

NEIGHBOUR = 0.3  # the weight of a link for that of the words before or after both
NEAREST = 0.2  # the least share of the weight of a source word that says where its translation is


class BestLinks(NamedTuple):
    """The links of a pair, at most one for each target word; and of each source word, the target
    word with the largest share of its weight, None if that is small.
    """

    links: set[Link]
    nearest: list[int | None]

    @classmethod
    def of(cls, weights: Tensor, source: Sequence[Word], target: Sequence[Word]) -> "BestLinks":
        """Links for which source words compete.

        Some source words, often the last, draw weight from all target words. Where the weights of
        each source word are divided by their sum, these do not win: for a model that was not
        trained to align, that halves the errors. A link is likelier where the words before or after
        both are linked, too; and marks are linked to marks only.

        Args:
            weights: (target words, source words).
        """
        marks = [torch.tensor([is_mark(word) for word in words]) for words in (target, source)]
        alike = marks[0][:, None] == marks[1]
        weights = weights.double() * alike
        shares = weights / weights.sum(0).clamp(min=1e-9)
        if not shares.numel():
            return cls(set(), [None] * len(source))
        competing = shares / shares.sum(1, keepdim=True).clamp(min=1e-9)
        support = competing.clone()
        support[1:, 1:] += NEIGHBOUR * competing[:-1, :-1]
        support[:-1, :-1] += NEIGHBOUR * competing[1:, 1:]
        values, sources = (support * alike).max(1)
        links = {(i, j) for j, i in enumerate(sources.tolist()) if values[j] > 0}
        largest, targets = shares.max(0)
        near = (largest >= NEAREST).tolist()
        return cls(links, [j if n else None for j, n in zip(targets.tolist(), near, strict=True)])


def is_mark(word: Word) -> bool:
    return not any(map(str.isalnum, word.text))

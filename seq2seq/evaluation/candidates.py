"""Every reading, layer and head of a model as an aligner, compared on links made by hand."""

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.evaluation.alignment import Link, LinkCounts, Links
from seq2seq.evaluation.maps import SHIFTS, Alignment, Choice

# Parts of the weight on words that the largest must have: where a word looks about, the largest is
# seldom right, and how much models look about differs.
LEAST = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


class Candidate(NamedTuple):
    """A choice, and how its links agree with those made by hand."""

    choice: Choice
    counts: LinkCounts


class Candidates:
    """Counts the links of all choices over a validation set; `add` a pair, then `ranked`.

    A model of one head has no mean beside it.
    """

    def __init__(self, layers: int, heads: int):
        self.heads: list[int | None] = [None, *range(heads)] if heads > 1 else [None]
        self.counts = torch.zeros(
            3, len(LEAST), len(SHIFTS), layers, len(self.heads), dtype=torch.long
        )
        self.sure = 0

    def add(self, alignment: Alignment, gold: Links) -> None:
        """Links of a pair by all choices, as `Alignment.links`, counted against the gold ones.

        Links of the gold alignment beyond the words of the pair are never found.
        """
        self.sure += len(gold.sure)
        mean = alignment.weights.mean(2, keepdim=True)
        maps = torch.cat([mean, alignment.weights], 2)[:, :, : len(self.heads)].double()
        to_words, to_end = maps[..., :-1], maps[..., -1]  # (R, L, heads, T, S)
        if not to_words.numel():
            return
        most, best = to_words.max(-1)  # the first of equal ones
        linked = (most > 0) & (most >= to_end)
        held = to_words.sum(-1)
        right = [_holds(links, best, to_words.shape[-1]) for links in gold]
        for index, least in enumerate(LEAST):
            told = linked & (most >= least * held)
            for kind, found in enumerate((told, told & right[0], told & (right[0] | right[1]))):
                self.counts[kind, index] += found.sum(-1)

    def ranked(self) -> list[Candidate]:
        """The best of each reading, layer and head, the least error rate first; of equal ones the
        one that looked earlier, in an earlier layer, at the mean over heads.
        """
        _, _, shifts, layers, heads = self.counts.shape
        found = []
        for shift, layer, head in product(range(shifts), range(layers), range(heads)):
            rivals = []
            for least, counts in zip(LEAST, self.counts[..., shift, layer, head].T, strict=True):
                predicted, sure, possible = counts.tolist()
                choice = Choice(shift, layer, self.heads[head], least)
                rivals.append(Candidate(choice, LinkCounts(predicted, self.sure, sure, possible)))
            found.append(min(rivals, key=_error))
        return sorted(found, key=_error)


def _error(candidate: Candidate) -> float:
    return candidate.counts.aer


def _holds(links: set[Link], best: Tensor, sources: int) -> Tensor:
    """Whether (best source word, target word) is one of the links, in the shape of `best`."""
    targets = best.shape[-1]
    table = torch.zeros(targets, sources, dtype=torch.bool)
    for i, j in links:
        if i < sources and j < targets:
            table[j, i] = True
    return table[torch.arange(targets), best]

"""Every reading, layer and head of a model as an aligner, compared on links made by hand."""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.evaluation.alignment import LinkCounts, Links
from seq2seq.evaluation.maps import SHIFTS, Alignment, Choice


class Candidate(NamedTuple):
    """A choice, and how its links agree with those made by hand."""

    choice: Choice
    counts: LinkCounts


class Candidates:
    """Counts the links of all choices over a validation set; `add` a pair, then `ranked`."""

    def __init__(self, layers: int, heads: int):
        self.counts = torch.zeros(3, len(SHIFTS), layers, heads + 1, dtype=torch.long)
        self.sure = 0

    def add(self, alignment: Alignment, gold: Links) -> None:
        """Links of a pair by all choices, as `Alignment.links`, counted against the gold ones.

        Links of the gold alignment beyond the words of the pair are never found.
        """
        self.sure += len(gold.sure)
        mean = alignment.weights.mean(2, keepdim=True)
        maps = torch.cat([mean, alignment.weights], 2)  # (R, L, 1 + H, T, S + 1)
        to_words, to_end = maps[..., :-1], maps[..., -1]
        if not to_words.numel():
            return
        most, best = to_words.max(-1)  # the first of equal ones
        linked = (most > 0) & (most >= to_end)
        for kind, links in enumerate((None, gold.sure, gold.possible | gold.sure)):
            right = linked if links is None else linked & _holds(links, best, to_words.shape[-1])
            self.counts[kind] += right.sum(-1)

    def ranked(self) -> list[Candidate]:
        """All of them, the least error rate first; of equal ones the one that looked earlier, in
        an earlier layer, at the mean over heads.
        """
        found = []
        for shift, layer, head in torch.cartesian_prod(
            *(torch.arange(size) for size in self.counts.shape[1:])
        ).tolist():
            predicted, sure, possible = self.counts[:, shift, layer, head].tolist()
            choice = Choice(shift, layer, head - 1 if head else None)
            found.append(Candidate(choice, LinkCounts(predicted, self.sure, sure, possible)))
        return sorted(found, key=lambda candidate: candidate.counts.aer)


def _holds(links: set[tuple[int, int]], best: Tensor, sources: int) -> Tensor:
    """Whether (best source word, target word) is one of the links, in the shape of `best`."""
    targets = best.shape[-1]
    table = torch.zeros(targets, sources, dtype=torch.bool)
    for i, j in links:
        if i < sources and j < targets:
            table[j, i] = True
    return table[torch.arange(targets), best]

"""Compare all readings, layers and heads of a model as aligners, on reference links."""

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.alignment.choice import GUIDED_NEAR, SHIFTS, Alignment, Choice
from seq2seq.alignment.links import Link, LinkCounts, Links, compete

# Values of `Choice.competing` to try; of equal choices, the first is kept.
COMPETING = (True, False)
# Values of `Choice.threshold` to try. Where attention is diffuse, the largest weight is seldom
# right, and models differ in how diffuse their attention is.
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Values of `Choice.near` to try: link only the largest weight, or also weights near it, as for a
# head trained to align.
NEAR = (1.0, GUIDED_NEAR)


class Candidate(NamedTuple):
    """A choice, with the counts of its links that agree with the reference."""

    choice: Choice
    counts: LinkCounts


class CandidateCounts:
    """Counts the links of all choices over a validation set: `add` each pair, then call `rank`.

    With a single head, the mean over heads is not a separate choice.

    Attributes:
        sure: sure links of the reference.
    """

    def __init__(self, layers: int, heads: int):
        self.heads: list[int | None] = [None, *range(heads)] if heads > 1 else [None]
        shape = 3, len(COMPETING), len(NEAR), len(THRESHOLDS), len(SHIFTS), layers, len(self.heads)
        self.counts = torch.zeros(shape, dtype=torch.long)
        self.sure = 0

    def add(self, alignment: Alignment, reference: Links) -> None:
        """Compare the links of a pair under all choices (see `Alignment.links`) with the reference.

        Reference links beyond the words of the pair count as missed.
        """
        self.sure += len(reference.sure)
        mean = alignment.weights.mean(2, keepdim=True)
        maps = torch.cat([mean, alignment.weights], 2)[:, :, : len(self.heads)].double()
        if not maps[..., :-1].numel():
            return
        for competing, counts in zip(COMPETING, self.counts.unbind(1), strict=True):
            add_counts(counts, compete(maps) if competing else maps, reference)

    def rank(self) -> list[Candidate]:
        """The best choice of each reading, layer and head, lowest error rate first; ties go to the
        earlier reading, then to the earlier layer, then to the mean over heads.
        """
        *_, shifts, layers, heads = self.counts.shape
        winners = []
        for shift, layer, head in product(range(shifts), range(layers), range(heads)):
            rivals = []
            for limits in product(*map(enumerate, (COMPETING, NEAR, THRESHOLDS))):
                numbers, (competing, near, threshold) = zip(*limits, strict=True)
                counts = self.counts[:, *numbers, shift, layer, head]
                predicted, sure, possible = counts.tolist()
                choice = Choice(shift, layer, self.heads[head], threshold, near, competing)
                rivals.append(Candidate(choice, LinkCounts(predicted, self.sure, sure, possible)))
            winners.append(min(rivals, key=lambda rival: rival.counts.aer))
        return sorted(winners, key=lambda winner: winner.counts.aer)


def add_counts(counts: Tensor, maps: Tensor, reference: Links) -> None:
    """Add the numbers of links, of sure ones and of possible ones to `counts`.

    Args:
        counts: (3, near, thresholds, R, L, heads), changed in place.
        maps: weights, (R, L, heads, T, S + 1).
    """
    to_words, to_end = maps[..., :-1], maps[..., -1]  # (R, L, heads, T, S)
    largest, best = to_words.max(-1)  # the first of equal ones
    linked = (largest > 0) & (largest >= to_end)
    held = to_words.sum(-1)
    sure, possible = (link_table(links, *to_words.shape[-2:]) for links in reference)
    for i, near in enumerate(NEAR):
        chosen = to_words >= near * largest[..., None]
        if near == 1:
            chosen = torch.zeros_like(chosen).scatter(-1, best[..., None], 1)
        agreeing = chosen, chosen & sure, chosen & (sure | possible)
        by_word = torch.stack([kind.sum(-1) for kind in agreeing])  # (3, R, L, heads, T)
        for j, threshold in enumerate(THRESHOLDS):
            kept = linked & (largest >= threshold * held)
            counts[:, i, j] += (by_word * kept).sum(-1)


def link_table(links: set[Link], targets: int, sources: int) -> Tensor:
    """Links as a table, (T, S) bool: True where two words are linked."""
    table = torch.zeros(targets, sources, dtype=torch.bool)
    for i, j in links:
        if i < sources and j < targets:
            table[j, i] = True
    return table

"""All readings, layers and heads at once, against each alone."""

import pytest
import torch

from seq2seq.evaluation.alignment import Links, alignment_error_rate, words
from seq2seq.evaluation.candidates import Candidates
from seq2seq.evaluation.maps import Alignment, Choice

LAYERS, HEADS = 3, 2


def alignment(source: int, target: int) -> Alignment:
    """Random weights, many of them equal or zero."""
    texts = words(" ".join("s" * source)), words(" ".join("t" * target))
    weights = torch.randint(0, 4, (2, LAYERS, HEADS, target, source + 1)) / 4.0
    return Alignment(*texts, weights)


def links(source: int, target: int) -> Links:
    """Random ones, some beyond the words."""
    every = {(i, j) for i in range(source + 1) for j in range(target + 1)}
    sure = {link for link in every if torch.rand(()) < 0.3}
    return Links(sure, sure | {link for link in every if torch.rand(()) < 0.2})


def test_each_candidate_has_the_error_rate_of_its_own_links() -> None:
    torch.manual_seed(0)
    sizes = [(3, 4), (1, 1), (5, 2), (2, 0), (0, 2)]
    pairs = [(alignment(*size), links(*size)) for size in sizes]
    candidates = Candidates(LAYERS, HEADS)
    for pair in pairs:
        candidates.add(*pair)
    ranked = candidates.ranked()
    sure, possible = zip(*(gold for _, gold in pairs), strict=True)
    assert len({c.choice for c in ranked}) == len(ranked) == 2 * LAYERS * (HEADS + 1)
    for choice, counts in ranked:
        alone = [found.links(choice) for found, _ in pairs]
        assert counts.aer == pytest.approx(alignment_error_rate(alone, sure, possible))
        assert counts.predicted == sum(map(len, alone))
    rates = [c.counts.aer for c in ranked]
    assert rates == sorted(rates) and rates[0] < rates[-1]


def test_the_reading_that_agrees_with_the_links_comes_first() -> None:
    found = alignment(4, 4)
    found.weights.fill_(0.1)
    found.weights[1, 2, 1] = torch.eye(4, 5)
    candidates = Candidates(LAYERS, HEADS)
    candidates.add(found, Links({(i, i) for i in range(4)}, set()))
    best = candidates.ranked()[0]
    # The mean with a head that looks everywhere finds the same links, and is said first.
    assert best.choice == Choice(1, 2, None)
    found.weights[1, 2, 0] = torch.eye(4, 5).flip(0)
    candidates.add(found, Links({(i, i) for i in range(4)}, set()))
    assert candidates.ranked()[0].choice == Choice(1, 2, 1)
    assert candidates.ranked()[0].counts == (8, 8, 8, 8)

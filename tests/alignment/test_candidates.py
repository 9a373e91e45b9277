"""Ranking all readings, layers and heads at once agrees with scoring each alone."""

import pytest
import torch
from helpers.builders import error_rate

from seq2seq.alignment.candidates import COMPETING, NEAR, THRESHOLDS, CandidateCounts
from seq2seq.alignment.choice import Alignment, Choice
from seq2seq.alignment.links import Links, words

LAYERS, HEADS = 3, 2


def alignment(source: int, target: int) -> Alignment:
    """Random weights, many of them equal or zero."""
    texts = words(" ".join("s" * source)), words(" ".join("t" * target))
    weights = torch.randint(0, 4, (2, LAYERS, HEADS, target, source + 1)) / 4.0
    return Alignment(*texts, weights)


def links(source: int, target: int) -> Links:
    """Random links, some beyond the last word."""
    every = {(i, j) for i in range(source + 1) for j in range(target + 1)}
    sure = {link for link in every if torch.rand(()) < 0.3}
    return Links(sure, sure | {link for link in every if torch.rand(()) < 0.2})


def test_each_candidate_has_the_error_rate_of_its_links() -> None:
    torch.manual_seed(0)
    sizes = [(3, 4), (1, 1), (5, 2), (2, 0), (0, 2)]
    pairs = [(alignment(*size), links(*size)) for size in sizes]
    candidates = CandidateCounts(LAYERS, HEADS)
    for pair in pairs:
        candidates.add(*pair)
    ranked = candidates.rank()
    sure, possible = zip(*(reference for _, reference in pairs), strict=True)
    assert len({c.choice[:3] for c in ranked}) == len(ranked) == 2 * LAYERS * (HEADS + 1)
    for choice, counts in ranked:
        rivals = [
            choice._replace(threshold=threshold, near=near, competing=competing)
            for competing in COMPETING
            for near in NEAR
            for threshold in THRESHOLDS
        ]
        alone = [[one.links(rival) for one, _ in pairs] for rival in rivals]
        rates = [error_rate(links, sure, possible) for links in alone]
        assert counts.aer == pytest.approx(min(rates))
        assert counts.aer == pytest.approx(rates[rivals.index(choice)])
        assert counts.predicted == sum(map(len, alone[rivals.index(choice)]))
    rates = [c.counts.aer for c in ranked]
    assert rates == sorted(rates) and rates[0] < rates[-1]


def test_the_reading_that_agrees_with_the_links_comes_first() -> None:
    given = alignment(4, 4)
    given.weights.fill_(0.1)
    order = [2, 0, 3, 1]  # no two neighbours are neighbours in the translation too
    given.weights[1, 2, 1] = torch.eye(4, 5)[order]
    candidates = CandidateCounts(LAYERS, HEADS)
    candidates.add(given, Links({(i, j) for j, i in enumerate(order)}, set()))
    best = candidates.rank()[0]
    assert best.counts == (4, 4, 4, 4)
    # The mean with a head that looks everywhere gives the same links, and comes first.
    assert best.choice == Choice(1, 2, None)
    given.weights[1, 2, 0] = torch.eye(4, 5)[order[::-1]]
    candidates.add(given, Links({(i, j) for j, i in enumerate(order)}, set()))
    assert candidates.rank()[0].choice == Choice(1, 2, 1)
    assert candidates.rank()[0].counts == (8, 8, 8, 8)


def test_a_threshold_against_unfocused_words_is_chosen_where_that_is_better() -> None:
    given = Alignment(words("a b c"), words("x y"), torch.zeros(2, 1, 1, 2, 4))
    given.weights[:, 0, 0, 0] = torch.tensor([0.0, 0.9, 0.1, 0.0])
    given.weights[:, 0, 0, 1] = torch.tensor([0.45, 0.3, 0.25, 0.0])
    candidates = CandidateCounts(1, 1)
    candidates.add(given, Links({(1, 0)}, set()))
    ranked = candidates.rank()
    # Both readings are alike, and one head is its own mean.
    assert [c.choice[:3] for c in ranked] == [(0, 0, None), (1, 0, None)]
    # The shares of a, b, c in y are 0.9, 0.24, 0.625, or 0.51, 0.136, 0.354 of their sum. With 0.3
    # of what b has in x, 0.742, c has most: 0.577 of 1.223, or 0.47. In x, b has 0.77.
    assert ranked[0].choice.threshold == 0.5
    assert ranked[0].counts.aer == 0

"""Minimum Bayes risk, compared with sacreBLEU's scores of all pairs."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from seq2seq.metrics import mbr
from seq2seq.metrics.mbr import minimum_bayes_risk

letters = st.text(alphabet="ab \t\u00a0é😀猫", max_size=12)
words = st.lists(
    st.sampled_from(["a", "cat", "sat,", "3.5", "$5.", "猫が", "ü", "\u2028"]), max_size=9
)
hypotheses = st.lists(st.one_of(letters, words.map(" ".join)), min_size=1, max_size=9)


def by_pairs(texts: Sequence[str]) -> list[float]:
    """The expected chrF of each text: the mean of sacreBLEU's scores against all texts."""
    metric = CHRF()
    scores = [[metric.sentence_score(text, [other]).score for other in texts] for text in texts]
    return [sum(row) / len(row) for row in scores]


def first_best(expected: Sequence[float]) -> int:
    """Index of the first value that is the largest up to rounding."""
    return next(i for i, value in enumerate(expected) if value > max(expected) - 1e-8)


@settings(max_examples=200, deadline=None)
@given(hypotheses)
def test_expected_values_are_means_of_sentence_scores(texts: list[str]) -> None:
    expected = by_pairs(texts)
    decision = minimum_bayes_risk(texts)
    assert decision.expected == pytest.approx(expected, abs=1e-9)
    assert decision.best == first_best(expected)


def variants(count: int) -> list[str]:
    rng, text = random.Random(count), "a quick brown fox jumps over the lazy dog, is it not?"
    return [
        " ".join(rng.choice(text.split()) if rng.random() < 0.3 else word for word in text.split())
        for _ in range(count)
    ]


@pytest.mark.parametrize("block", [1, 500])
def test_the_size_of_a_block_makes_no_difference(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = variants(12)
    expected = by_pairs(texts)
    monkeypatch.setattr(mbr, "BLOCK", block)
    assert minimum_bayes_risk(texts).expected == pytest.approx(expected, abs=1e-9)


def test_a_text_counts_as_often_as_it_occurs() -> None:
    texts = [*variants(5), "something else altogether"]
    assert minimum_bayes_risk(texts).best < 5
    assert minimum_bayes_risk([*texts, *texts[-1:] * 30]).best == 5


@pytest.mark.parametrize("texts", [["b a", "a b"], ["abc", "def", "ghi"], ["", ""], ["a a", "a a"]])
def test_the_first_of_equally_good_texts_is_chosen(texts: list[str]) -> None:
    assert minimum_bayes_risk(texts).best == 0
    assert minimum_bayes_risk(texts[::-1]).best == 0


def test_one_hypothesis_is_its_own_reference() -> None:
    assert minimum_bayes_risk(["a long enough text"]) == (0, [pytest.approx(100)])
    assert minimum_bayes_risk([""]) == (0, [0])


def test_an_empty_list_of_hypotheses_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one hypothesis"):
        minimum_bayes_risk([])

"""Minimum Bayes risk against sacreBLEU, one pair after the other."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seq2seq.errors import ConfigError
from seq2seq.metrics import mbr
from seq2seq.metrics.mbr import UTILITIES, minimum_bayes_risk

every_utility = pytest.mark.parametrize("utility", UTILITIES)
TOKENIZERS = {None: "13a", "de": "13a", "zh": "zh", "ja": "char"}

letters = st.text(alphabet="ab \t\u00a0é😀猫", max_size=12)
words = st.lists(
    st.sampled_from(["a", "cat", "sat,", "3.5", "$5.", "猫が", "ü", "\u2028"]), max_size=9
)
hypotheses = st.lists(st.one_of(letters, words.map(" ".join)), min_size=1, max_size=9)


def by_pairs(texts: Sequence[str], utility: str, language: str | None = None) -> list[float]:
    """The expected utility of each: the mean of sacreBLEU's scores."""
    metric = CHRF() if utility == "chrf" else BLEU(None, tokenize=TOKENIZERS[language])
    metric.effective_order = True
    scores = [[metric.sentence_score(text, [other]).score for other in texts] for text in texts]
    return [sum(row) / len(row) for row in scores]


def first_best(expected: Sequence[float]) -> int:
    """The first that is best up to rounding."""
    return next(i for i, value in enumerate(expected) if value > max(expected) - 1e-8)


@every_utility
@settings(max_examples=200, deadline=None)
@given(hypotheses, st.sampled_from(list(TOKENIZERS)))
def test_expected_utilities_are_means_of_sentence_scores(
    utility: str, texts: list[str], language: str | None
) -> None:
    expected = by_pairs(texts, utility, language)
    decision = minimum_bayes_risk(texts, utility, language)
    assert decision.expected == pytest.approx(expected, abs=1e-9)
    assert decision.best == first_best(expected)


def variants(count: int) -> list[str]:
    rng, text = random.Random(count), "a quick brown fox jumps over the lazy dog, is it not?"
    return [
        " ".join(rng.choice(text.split()) if rng.random() < 0.3 else word for word in text.split())
        for _ in range(count)
    ]


@every_utility
@pytest.mark.parametrize("block", [1, 500])
def test_the_size_of_a_block_makes_no_difference(
    utility: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = variants(12)
    expected = by_pairs(texts, utility)
    monkeypatch.setattr(mbr, "BLOCK", block)
    assert minimum_bayes_risk(texts, utility).expected == pytest.approx(expected, abs=1e-9)


@every_utility
def test_a_text_weighs_as_often_as_it_occurs(utility: str) -> None:
    texts = [*variants(5), "something else altogether"]
    assert minimum_bayes_risk(texts, utility).best < 5
    assert minimum_bayes_risk([*texts, *texts[-1:] * 30], utility).best == 5


@every_utility
@pytest.mark.parametrize("texts", [["b a", "a b"], ["abc", "def", "ghi"], ["", ""], ["a a", "a a"]])
def test_of_equal_ones_the_first_is_chosen(utility: str, texts: list[str]) -> None:
    assert minimum_bayes_risk(texts, utility).best == 0
    assert minimum_bayes_risk(texts[::-1], utility).best == 0


@every_utility
def test_one_hypothesis_is_its_own_reference(utility: str) -> None:
    assert minimum_bayes_risk(["a long enough text"], utility) == (0, [pytest.approx(100)])
    assert minimum_bayes_risk([""], utility) == (0, [0])


def test_what_cannot_be_decided_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown utility 'blue'; did you mean 'bleu'\?"):
        minimum_bayes_risk(["a"], "blue")
    with pytest.raises(ValueError, match="at least one hypothesis"):
        minimum_bayes_risk([])

"""Sentence quality and confidence."""

from statistics import fmean

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.metrics.sentence_quality import (
    SentenceQuality,
    agreement,
    extremes,
    length_ratio,
    reliability,
    sentence_quality,
)

UNIT = st.floats(0, 1, width=16)
JUDGED = st.lists(
    st.builds(
        SentenceQuality,
        st.integers(1, 99),
        st.just("s"),
        st.just("h"),
        st.text(max_size=5),
        st.none() | UNIT,
        st.floats(0, 100, width=16),
    ),
    max_size=40,
)


def judged(confidences: list[float], qualities: list[float]) -> list[SentenceQuality]:
    pairs = enumerate(zip(confidences, qualities, strict=True), 1)
    return [SentenceQuality(line_no, "s", "h", "r", *pair) for line_no, pair in pairs]


def test_the_quality_of_a_sentence_is_that_of_sacrebleu() -> None:
    hypotheses, references = ["a dog runs", "", "yes"], ["the dog runs", "no", "yes"]
    expected = [
        sacrebleu.sentence_chrf(h, [r]).score for h, r in zip(hypotheses, references, strict=True)
    ]
    assert sentence_quality(hypotheses, references) == expected
    assert expected[2] == 100


@given(JUDGED)
def test_bins_are_of_one_size_and_leave_no_sentence_out(rows: list[SentenceQuality]) -> None:
    bins = reliability(rows)
    known = [j for j in rows if j.confidence is not None]
    sizes = [b.sentences for b in bins]
    assert sum(sizes) == len(known)
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert [b.confidence for b in bins] == sorted(b.confidence for b in bins)
    if known:
        mean = sum(b.quality * b.sentences for b in bins) / len(known)
        assert mean == pytest.approx(fmean(j.quality for j in known))


def test_confidence_that_is_quality_agrees_wholly_and_a_constant_one_says_nothing() -> None:
    values = [0.1, 0.5, 0.6, 0.9]
    qualities = [100 * v for v in values]
    assert agreement(judged(values, qualities)) == pytest.approx(1)
    assert agreement(judged(values, qualities[::-1])) < 0
    assert agreement(judged([0.5] * 4, qualities)) is None
    assert agreement([]) is None


@given(JUDGED, st.integers(0, 10))
def test_no_sentence_is_among_the_worst_and_the_best(
    rows: list[SentenceQuality], count: int
) -> None:
    rows = [j._replace(line_no=n) for n, j in enumerate(rows, 1)]
    worst, best = extremes(rows, count)
    assert len(worst) == len(best) <= count
    assert not set(worst) & set(best)
    if worst:
        assert max(j.quality for j in worst) <= min(j.quality for j in best)
        assert worst[0].quality == min(j.quality for j in rows)
        assert best[0].quality == max(j.quality for j in rows)


def test_the_ratio_of_lengths_counts_characters_but_no_white_space() -> None:
    assert length_ratio(["a b", "c"], [["a b c", "d e f"]]) == 3 / 6
    assert length_ratio(["你好"], [["你 好"]]) == 1
    assert length_ratio([""], [[None]]) == 0

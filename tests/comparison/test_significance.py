"""The test of differences: its parts against formulas, the whole on simulated translations."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from helpers.simulated_scores import bleu, odds_of, power, simulate
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from seq2seq.comparison.significance import (
    compare_means,
    correct_by_holm,
    integrate_student,
    resample,
)

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def mean(counts: np.ndarray) -> float:
    return float(counts[0] / counts[1])


def scores_of(values: np.ndarray) -> np.ndarray:
    """Counts of (runs, sentences) scores whose mean is the score of the corpus."""
    return np.stack([values, np.ones_like(values)], -1)


@pytest.mark.parametrize("freedom", [1.0, 2.0, 4.0])
def test_student_is_integrated_as_its_closed_forms_say(freedom: float) -> None:
    angles, inside = integrate_student(freedom)
    for t in (0.1, 1.0, 4.3, 60.0):
        # P(|T| < t), from Abramowitz and Stegun 26.7.3 and 26.7.4.
        angle = math.atan(t / math.sqrt(freedom))
        sine, cosine = math.sin(angle), math.cos(angle)
        exact = {
            1.0: 2 * angle / math.pi,
            2.0: sine,
            4.0: sine * (1 + cosine**2 / 2),
        }[freedom]
        assert np.interp(angle, angles, inside) == pytest.approx(exact, abs=1e-8)


def test_student_with_many_degrees_of_freedom_is_the_normal_distribution() -> None:
    angles, inside = integrate_student(1e6)
    for z in (0.5, 1.96, 3.0):
        found = np.interp(math.atan(z / 1e3), angles, inside)
        assert found == pytest.approx(math.erf(z / math.sqrt(2)), abs=1e-5)


@given(P_VALUES)
def test_holm_rejects_what_the_definition_rejects(p_values: list[float]) -> None:
    adjusted = correct_by_holm(p_values)
    for level in (0.01, 0.05, 0.2):
        rejected: set[int] = set()
        remaining = sorted(range(len(p_values)), key=lambda n: p_values[n])
        while remaining and p_values[remaining[0]] * len(remaining) <= level:
            rejected.add(remaining.pop(0))
        assert {n for n, p in enumerate(adjusted) if p <= level} == rejected


def test_one_seed_gives_the_interval_of_paired_sentences() -> None:
    random = np.random.default_rng(1)
    hard = random.normal(0, 5, 4000)
    one, other = hard + random.normal(0.1, 1, 4000), hard + random.normal(0, 1, 4000)
    found = compare_means(*(resample(scores_of(x[None]), mean, 4000) for x in (one, other)))
    assert found is not None
    apart = one - other
    half = 1.96 * apart.std(ddof=1) / math.sqrt(4000)
    assert found.value == pytest.approx(apart.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)


def test_seeds_that_differ_more_than_sentences_give_welch_s_interval() -> None:
    # On so many equal sentences that only seeds matter.
    one, other = np.array([1.0, 2.0, 6.0]), np.array([3.0, 3.5, 4.0])
    found = compare_means(
        *(resample(scores_of(np.repeat(x[:, None], 50, 1)), mean, 50) for x in (one, other))
    )
    assert found is not None
    squares = [x.var(ddof=1) / 3 for x in (one, other)]
    freedom = sum(squares) ** 2 / sum(s**2 / 2 for s in squares)
    angles, inside = integrate_student(freedom)
    t = math.sqrt(freedom) * math.tan(np.interp(0.95, inside, angles))
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert found.high - found.value == pytest.approx(t * math.sqrt(sum(squares)), rel=1e-6)


def test_sentences_and_seeds_are_counted_once() -> None:
    """The estimated variance of a difference is that of many repetitions, on average."""
    random = np.random.default_rng(4)
    errors, values, widths = [], [], []
    for _ in range(300):
        hard = random.normal(0, 2, 60)
        pair = [
            resample(
                scores_of(hard + random.normal(0, 0.5, (3, 1)) + random.normal(0, 3, (3, 60))),
                mean,
                200,
            )
            for _ in range(2)
        ]
        found = compare_means(*pair)
        assert found is not None
        values.append(found.value)
        widths.append(found.high - found.low)
        errors.append(not found.low <= 0 <= found.high)
    # At most 5 %, and two deviations of a share in 300 repetitions.
    assert np.mean(errors) < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)
    # The halves of the intervals are between 1.96 and 1.5 times 2.8 (t with 4) true deviations.
    assert 1.96 < np.mean(widths) / 2 / np.std(values) < 4.2


def test_equal_runs_show_no_difference_and_one_sentence_is_no_test_set() -> None:
    values = np.arange(12.0).reshape(3, 4)
    same = resample(scores_of(values), mean, 50)
    found = compare_means(same, same)
    assert found is not None and found.value == 0 and found.p_value == 1
    single = resample(scores_of(values[:, :1]), mean, 50)
    assert compare_means(single, single) is None


def test_scores_are_those_of_sacrebleu_and_the_same_test_sets_are_drawn() -> None:
    references = ["a b c d e", "the cat sat on the mat", "no"]
    systems = [["a b c d", "the cat on the mat", "yes"], ["a b d e", "a cat sat on the mat", "no"]]
    metric = BLEU(force=True, references=[references])
    counts = np.array([metric._extract_corpus_statistics(s, None) for s in systems], float)
    found = resample(counts, bleu, 20)
    expected = [BLEU(force=True).corpus_score(s, [references]).score for s in systems]
    assert found.values == pytest.approx(expected)
    alone = resample(counts[1:], bleu, 20)
    assert (alone.draws[:, 0] == found.draws[:, 1]).all()


def planted(differences: Sequence[float]) -> dict[float, float]:
    """The share of 100 simulated comparisons in which a difference is found."""
    return {each: power(each, 0.02, 100, draws=100)["compare"] for each in differences}


def test_planted_differences_are_found_and_others_hardly_ever() -> None:
    found = planted([0.0, 2.0])
    assert found[0.0] <= 0.05 < found[2.0]


@pytest.mark.slow
def test_larger_differences_are_found_more_often() -> None:
    found = planted([0.0, 1.0, 2.0, 4.0])
    assert list(found.values()) == sorted(found.values()) and found[4.0] > 0.8


def test_simulated_mechanisms_are_as_far_apart_as_planted() -> None:
    odds = np.array([odds_of(30, 0.02)] * 8 + [odds_of(32, 0.02)] * 8)
    runs = simulate(np.random.default_rng(9), odds, 0.02, 8000)
    scores = np.array([[bleu(r.sum(0)) for r in each] for each in runs])
    assert scores[8:].mean() - scores[:8].mean() == pytest.approx(2, abs=0.3)

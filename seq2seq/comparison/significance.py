"""Differences between mechanisms, with sentences and seeds as sources of chance.

Each mechanism has S runs, which differ in their seeds, and every run translates the same n
sentences. A score of a corpus is a function of counts that are summed over its sentences, so a
resampled test set only needs new sums (Koehn 2004, W04-3250).

Sentences are paired: all runs of all mechanisms are scored on the same resampled test sets. Seeds
are not: seed 1 of one mechanism has nothing in common with seed 1 of another but the order of its
batches. The variance of the difference of two means of S runs has two parts,

    V = max(V_test - sum_m N_m / S_m, 0) + sum_m max(B_m, N_m) / S_m

V_test is the variance of the difference over resampled test sets. B_m is the sample variance of
the scores of mechanism m over its seeds. N_m is the part of it which the choice of sentences
explains: a run differs from the mean of its mechanism by more or less on other sentences. N_m is
in V_test as well, and is counted once.

A bootstrap that draws S seeds out of S with replacement is too optimistic if S is 3: it
underestimates the variance over seeds by a third, and its quantiles assume that the variance is
known. So seeds are not drawn. Their sample variance is used as it is, and quantiles are those of
Student's t, whose degrees of freedom follow from the shares of V (Welch 1947; Satterthwaite 1946).
With one seed, V contains only the sentences. docs/evaluation.md has simulations.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 1000  # resampled test sets
LEVEL = 0.05  # largest p-value that counts as a difference
GRID = 100_000  # cells of the numerical integral of Student's t
BLOCK = 1_000_000  # largest number of draws times sentences in memory

Array = NDArray[np.float64]


class Resampled(NamedTuple):
    """The scores of the runs of one mechanism, (runs,), and on drawn test sets, (draws, runs)."""

    values: Array
    draws: Array
    sentences: int

    @property
    def noise(self) -> float:
        """The variance of a run's score around the mean of the runs, over resampled test sets."""
        apart = self.draws - self.draws.mean(1, keepdims=True)
        return float(apart.var(0, ddof=1).sum() / (len(self.values) - 1))


class MeanDifference(NamedTuple):
    """A difference of mean scores, its 95 % interval, and its two-sided p-value."""

    value: float
    low: float
    high: float
    p_value: float


def resample(
    statistics: Array, score: Callable[[Array], float], draws: int = DRAWS, seed: int = 12345
) -> Resampled:
    """Score the runs of a mechanism on the test set and on resampled ones.

    The same seed draws the same test sets, so the results for several mechanisms are paired.

    Args:
        statistics: (runs, sentences, counts).
        score: function from counts, summed over sentences, to a score.
    """
    random = np.random.default_rng(seed)
    runs, sentences, _ = statistics.shape
    even, drawn = np.full(sentences, 1 / sentences), np.empty((draws, runs))
    size = max(1, BLOCK // sentences)
    for start in range(0, draws, size):
        often = random.multinomial(sentences, even, min(size, draws - start)).astype(float)
        for run in range(runs):
            drawn[start : start + size, run] = [score(row) for row in often @ statistics[run]]
    values = np.array([score(row) for row in statistics.sum(1)])
    return Resampled(values, drawn, sentences)


def compare_means(one: Resampled, other: Resampled) -> MeanDifference | None:
    """The mean score of one mechanism minus that of another; None for fewer than two sentences."""
    if one.sentences < 2:
        return None
    value = float(one.values.mean() - other.values.mean())
    test = float((one.draws.mean(1) - other.draws.mean(1)).var(ddof=1))
    parts = []  # shares of the variance with their degrees of freedom
    for each in (one, other):
        if (seeds := len(each.values)) > 1:
            noise, between = each.noise, float(each.values.var(ddof=1))
            test -= noise / seeds
            # The noise is known from all sentences, the variance over seeds only from the seeds.
            freedom = seeds - 1 if between > noise else one.sentences - 1
            parts.append((max(between, noise) / seeds, freedom))
    parts.append((max(test, 0.0), one.sentences - 1))
    variance = sum(part for part, _ in parts)
    if not variance:  # all sentences and seeds agree
        return MeanDifference(value, value, value, float(value == 0))
    effective = variance**2 / sum(part**2 / count for part, count in parts)
    angles, inside = integrate_student(effective)
    error, scale = variance**0.5, effective**0.5
    half = error * scale * float(np.tan(np.interp(1 - LEVEL, inside, angles)))
    tail = 1 - float(np.interp(np.arctan(abs(value) / error / scale), angles, inside))
    return MeanDifference(value, value - half, value + half, max(tail, 0.0))


def integrate_student(freedom: float) -> tuple[Array, Array]:
    """Angles from 0 to pi/2, and the probability that Student's |t| is below sqrt(df) tan(angle).

    In this angle, the density of t with df degrees of freedom is proportional to cos^(df - 1).
    """
    angles = np.linspace(0, np.pi / 2, GRID + 1)
    inside = np.cumsum(np.cos((angles[1:] + angles[:-1]) / 2) ** (freedom - 1))
    return angles, np.concatenate(([0.0], inside / inside[-1]))


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """The p-values for as many comparisons, so that any false one among them is as rare as one.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = sorted(range(len(p_values)), key=lambda n: p_values[n])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for place, n in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * p_values[n]))
        adjusted[n] = largest
    return adjusted

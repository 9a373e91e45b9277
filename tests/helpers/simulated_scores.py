"""Translations whose true BLEU is known, and how often a test finds a difference between them.

    PYTHONPATH=tests:. python -m helpers.simulated_scores      the table in docs/evaluation.md

A sentence is a row of words, each of which is right or wrong. How probable it is that a word is
right depends on the mechanism, on the seed (which makes some runs better than others), on the
sentence, and on the sentence in this run.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from seq2seq.comparison.significance import (
    LEVEL,
    Array,
    Resampled,
    compare_means,
    resample,
)
from seq2seq.metrics.registry import ORDER, build_bleu

SENTENCES, SEEDS = 500, 3
SENTENCE, RUN = 0.9, 0.5  # deviations of log odds
Test = Callable[[Resampled, Resampled], bool]


def count_matches(right: NDArray[np.bool_], lengths: NDArray[np.int64]) -> Array:
    """(..., sentences, 10): sacreBLEU's counts, of masks (..., sentences, words)."""
    total = [np.maximum(lengths - n, 0) for n in range(ORDER)]
    windows, correct = right, []
    for n in range(ORDER):
        windows = windows[..., 1:] & right[..., : right.shape[-1] - n] if n else right
        correct.append(windows.sum(-1))
    shape = correct[0].shape
    parts = [lengths, lengths, *correct, *total]
    return np.stack([np.broadcast_to(part, shape) for part in parts], -1).astype(float)


def simulate(
    random: np.random.Generator, odds: Array, spread: float, sentences: int = SENTENCES
) -> list[Array]:
    """The counts (seeds, sentences, 10) of each mechanism.

    Args:
        odds: log odds of a right word, one for each mechanism.
        spread: deviation of these log odds over seeds.
    """
    lengths = random.integers(6, 22, sentences)
    exists = np.arange(22) < lengths[:, None]
    hard = random.normal(0, SENTENCE, sentences)
    result = []
    for mean in odds:
        level = mean + random.normal(0, spread, (SEEDS, 1)) + hard
        level = level + random.normal(0, RUN, (SEEDS, sentences))
        chance = 1 / (1 + np.exp(-level))
        right = (random.random((SEEDS, sentences, 22)) < chance[..., None]) & exists
        result.append(count_matches(right, lengths))
    return result


def bleu(counts: Array) -> float:
    return float(build_bleu_once()._compute_score_from_stats([int(c) for c in counts]).score)


@cache
def build_bleu_once():  # type: ignore[no-untyped-def]
    return build_bleu()


@cache
def odds_of(wanted: float, spread: float) -> float:
    """The log odds whose mean BLEU over many sentences and seeds is `wanted`."""
    low, high = 0.0, 3.0
    for _ in range(18):
        middle = (low + high) / 2
        random = np.random.default_rng(1)
        found = np.mean(
            [
                bleu(run.sum(0))
                for counts in simulate(random, np.full(8, middle), spread, 6000)
                for run in counts
            ]
        )
        low, high = (middle, high) if found < wanted else (low, middle)
    return low


def is_found(one: Resampled, other: Resampled) -> bool:
    """The test of `seq2seq compare`."""
    difference = compare_means(one, other)
    return difference is not None and difference.p_value < LEVEL


def is_found_by_drawing(one: Resampled, other: Resampled) -> bool:
    """The bootstrap that draws seeds and sentences, and takes quantiles: too optimistic."""
    random = np.random.default_rng(2)
    means = []
    for each in (one, other):
        chosen = random.integers(0, SEEDS, (len(each.draws), SEEDS))
        means.append(np.take_along_axis(each.draws, chosen, 1).mean(1))
    low, high = np.quantile(means[0] - means[1], (LEVEL / 2, 1 - LEVEL / 2))
    return bool(low > 0 or high < 0)


def is_found_on_one_seed(one: Resampled, other: Resampled) -> bool:
    """A paired bootstrap over sentences, of the first runs alone."""
    low, high = np.quantile(one.draws[:, 0] - other.draws[:, 0], (LEVEL / 2, 1 - LEVEL / 2))
    return bool(low > 0 or high < 0)


def is_found_by_pairing(one: Resampled, other: Resampled) -> bool:
    """As `is_found`, with equal seeds as pairs, which have half the degrees of freedom."""
    apart = Resampled(one.values - other.values, one.draws - other.draws, one.sentences)
    nothing = Resampled(np.zeros(1), np.zeros((len(one.draws), 1)), one.sentences)
    return is_found(apart, nothing)


TESTS: dict[str, Test] = {
    "compare": is_found,
    "seeds paired": is_found_by_pairing,
    "seeds drawn": is_found_by_drawing,
    "one seed": is_found_on_one_seed,
}


def power(
    difference: float, spread: float, trials: int, draws: int = 300, seed: int = 0
) -> dict[str, float]:
    """The share of simulated comparisons in which each test finds a difference."""
    odds = np.array([odds_of(30, spread), odds_of(30 + difference, spread)])
    random = np.random.default_rng(seed)
    found = dict.fromkeys(TESTS, 0)
    for _ in range(trials):
        one, other = (resample(counts, bleu, draws) for counts in simulate(random, odds, spread))
        for name, test in TESTS.items():
            found[name] += test(one, other)
    return {name: count / trials for name, count in found.items()}


def deviation(spread: float, sentences: int = 30_000) -> float:
    """The deviation of BLEU over seeds, on a test set without end."""
    random = np.random.default_rng(3)
    counts = simulate(random, np.full(10, odds_of(30, spread)), spread, sentences)
    return float(np.mean([np.std([bleu(r.sum(0)) for r in runs], ddof=1) for runs in counts]))


if __name__ == "__main__":
    print(f"| BLEU apart | deviation over seeds | {' | '.join(TESTS)} |")
    for spread in (0.0, 0.05, 0.1):
        for difference in (0.0, 1.0, 2.0, 3.0):
            shares = power(difference, spread, 200 if difference else 400).values()
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            print(f"| {difference:.0f} | {deviation(spread):.2f} | {cells} |", flush=True)

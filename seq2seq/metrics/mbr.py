"""Minimum Bayes risk: choose, of many translations of a sentence, the one most similar to all.

Sources: Kumar and Byrne 2004 (N04-1022); Eikema and Aziz 2020 (2020.coling-main.398).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

Array = NDArray[np.int64]
BLOCK = 1 << 22  # elements of the largest matrix of n-grams


class Decision(NamedTuple):
    """The decision of minimum Bayes risk for one sentence."""

    best: int  # index of the hypothesis with the highest expected chrF; the first one in a tie
    expected: list[float]  # the expected chrF of each hypothesis, 0 to 100


def minimum_bayes_risk(hypotheses: Sequence[str]) -> Decision:
    """The hypothesis with the highest mean chrF against all hypotheses, itself included.

    Args:
        hypotheses: translations of one sentence; one that occurs n times counts n times.

    Raises: ValueError if there are no hypotheses.
    """
    if not hypotheses:
        raise ValueError("there should be at least one hypothesis to choose from")
    counts = Counter(hypotheses)
    weights = torch.tensor(list(counts.values())).double() / len(hypotheses)
    means = pairwise_chrf(list(counts)) @ weights
    by_text = dict(zip(counts, means.tolist(), strict=True))
    expected = [by_text[text] for text in hypotheses]
    # Rounded, because the order of summation may change the last digits.
    best = max(range(len(expected)), key=lambda i: round(expected[i], 9))
    return Decision(best, expected)


def pairwise_chrf(texts: Sequence[str]) -> Tensor:
    """sacreBLEU's sentence chrF of every text against every other, 0 to 100.

    Precision and recall are averaged over the n-gram orders that occur in both texts.

    Returns: (U, U), a row for each hypothesis, a column for each reference.
    Source: Popovic 2015 (W15-3049).
    """
    precision = recall = orders = torch.zeros((), dtype=torch.float64)
    for totals, matches in count_overlaps(["".join(t.split()) for t in texts], CHRF.CHAR_ORDER):
        divisors = totals.clamp(min=1)
        precision = precision + matches / divisors[:, None]
        recall = recall + matches / divisors
        orders = orders + ((totals > 0) & (totals > 0)[:, None])
    precision, recall = precision / orders.clamp(min=1), recall / orders.clamp(min=1)
    factor = CHRF.BETA**2
    scores = (1 + factor) * precision * recall / (factor * precision + recall)
    return 100 * scores.nan_to_num(0.0)  # 0 / 0: nothing in common


def count_overlaps(texts: Sequence[str], orders: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For each n from 1 to `orders`, yield the number of n-grams in each text, (U,), and the number
    that each two texts have in common, (U, U); both float64.
    """
    U, numbers = len(texts), dict[str, int]()
    symbols = np.array([numbers.setdefault(s, len(numbers)) for t in texts for s in t], np.int64)
    lengths = np.array([len(text) for text in texts])
    owners = np.arange(U).repeat(lengths)
    left = lengths.cumsum()[owners] - np.arange(len(owners))  # symbols to the end of the text
    grams = np.zeros_like(owners)  # a number for the n-gram that begins here
    for n in range(1, orders + 1):
        at = (left >= n).nonzero()[0]
        # Sorting these keys puts equal n-grams side by side, and within them those of one text.
        # For P symbols in all, a key is below P^2 U.
        keys = (grams[at] * len(numbers) + symbols[at + n - 1]) * U + owners[at]
        places = keys.argsort()
        keys, at, index = keys[places], at[places], np.arange(len(at))
        grams[at] = np.diff(keys // U, prepend=0).astype(bool).cumsum()
        first = np.maximum.accumulate(np.where(np.diff(keys, prepend=-1), index, 0))
        totals = np.maximum(lengths - n + 1, 0)
        yield (
            torch.from_numpy(totals).double(),
            count_matches(owners[at], grams[at], index - first, U),
        )


def count_matches(owners: Array, grams: Array, occurrences: Array, U: int) -> Tensor:
    """Count the n-grams that each two of U texts share, (U, U).

    The k-th occurrence of an n-gram in a text is a feature. The number of occurrences that two
    texts share is the smaller of their counts, which is the number of features that they share. A
    product of matrices of zeros and ones therefore counts all pairs at once.

    Args:
        owners, grams, occurrences: text, number and occurrence k of each of the M n-grams, (M,).
    """
    features = grams * (len(grams) + 1) + occurrences
    _, columns, counts = np.unique(features, return_inverse=True, return_counts=True)
    several = counts > 1  # the others occur in one text only, and affect only the diagonal
    of_several = several[columns]
    common = torch.from_numpy(np.bincount(owners[~of_several], minlength=U)).double().diag()
    owners, columns = owners[of_several], (several.cumsum() - 1)[columns[of_several]]
    width, total = max(1, BLOCK // U), int(several.sum())
    for start in range(0, total, width):
        inside = (columns >= start) & (columns < start + width)
        has = np.zeros((U, min(width, total - start)), np.float32)
        has[owners[inside], columns[inside] - start] = 1
        # Computed by torch, whose number of threads we control.
        common += torch.from_numpy(has) @ torch.from_numpy(has).T
    return common

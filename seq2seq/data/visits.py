"""Which rows an epoch visits, and how often, if corpora have weights."""

from collections.abc import Sequence

import numpy as np

from seq2seq.data.corpus import Share


def visits(longer: np.ndarray, shares: Sequence[Share], random: np.random.Generator) -> np.ndarray:
    """The rows of an epoch, int32, with repetitions.

    A share of weight w is visited floor(w) times whole, and as many of its rows as make up the rest
    are drawn without replacement, each with the same probability.

    Args:
        longer: (rows,) longer side of each pair.
        shares: rows and weights.
        random: where the draws come from.
    """
    found = []
    for share in shares:
        rows = np.arange(share.start, share.stop, dtype=np.int32)
        found += [rows] * int(share.weight)
        if count := _draws(share):
            found.append(_draw(rows, longer, count, random))
    return np.concatenate(found) if len(found) > 1 else found[0]


def _draws(share: Share) -> int:
    """How many rows of a share are drawn for the fraction of its weight; no share is left out."""
    count = round(share.weight % 1 * (share.stop - share.start))
    return max(1, count) if share.weight < 1 else count


def _draw(
    rows: np.ndarray, longer: np.ndarray, count: int, random: np.random.Generator
) -> np.ndarray:
    """Draw from the rows in order of length, at equal distances from a random start.

    Every row has the probability count / rows, and an epoch has nearly the same lengths as another.
    """
    shuffled = random.permutation(rows)
    ordered = shuffled[np.argsort(longer[shuffled], kind="stable")]
    places = ((np.arange(count) + random.random()) * (len(rows) / count)).astype(np.int64)
    # The bound is what rounding could exceed.
    return ordered[np.minimum(places, _bounds(len(rows), count))]


def _bounds(rows: int, count: int) -> np.ndarray:
    """The last place that each draw can come from."""
    return -(-np.arange(1, count + 1) * rows // count) - 1


def longest_visits(longer: np.ndarray, shares: Sequence[Share]) -> np.ndarray:
    """Ascending lengths that the visits of no epoch exceed, compared one by one in order.

    Batches cut by these lengths fit in every epoch, so every epoch has equally many.
    """
    found = []
    for share in shares:
        ordered = np.sort(longer[share.start : share.stop])
        found += [ordered] * int(share.weight)
        if count := _draws(share):
            found.append(ordered[_bounds(len(ordered), count)])
    return np.sort(np.concatenate(found)) if len(found) > 1 else found[0]

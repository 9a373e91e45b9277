"""Which rows an epoch visits, and how often, if corpora have weights."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2seq.data.corpus import Share

# As many visits are worked on at a time: what is computed on the way stays small.
CHUNK = 2**16


def visits(
    longer: np.ndarray, shares: Sequence[Share], random: np.random.Generator
) -> list[range | np.ndarray]:
    """The rows of an epoch, with repetitions, as spans of rows and as int32 arrays of rows.

    A share of weight w is visited floor(w) times whole, and as many of its rows as make up the rest
    are drawn without replacement, each with the same probability.

    Args:
        longer: (rows,) longer side of each pair.
        shares: rows and weights.
        random: where the draws come from.
    """
    found: list[range | np.ndarray] = []
    for share in shares:
        found += [range(share.start, share.stop)] * int(share.weight)
        if count := _draws(share):
            found.append(_draw(share, longer, count, random))
    return found


def chunks(visited: Sequence[range | np.ndarray]) -> Iterator[np.ndarray]:
    """The same rows in the same order, int32, at most CHUNK in an array."""
    for rows in visited:
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            if isinstance(part, range):
                part = np.arange(part.start, part.stop, dtype=np.int32)
            yield part


def first_places(visited: Sequence[range | np.ndarray], longer: np.ndarray) -> np.ndarray:
    """Where the visits of each length begin if visits are put in order of length.

    Returns: (longest + 2,) int64; the last is the number of visits.
    """
    found = np.zeros(int(longer.max(initial=0)) + 2, np.int64)
    for rows in chunks(visited):
        found[1:] += np.bincount(longer[rows], minlength=len(found) - 1)
    return np.cumsum(found)


def take_places(lengths: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The place of each of some visits in a stable order of length: a counting sort, in parts.

    Args:
        lengths: of the next visits.
        free: (lengths,) the first free place for each length; moved on.
    """
    counts = np.bincount(lengths, minlength=len(free))
    # Of numbers of 16 bits, a stable sort is linear in time.
    order = np.argsort(lengths, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) + np.repeat(free - np.cumsum(counts) + counts, counts)
    free += counts
    return places


def _draws(share: Share) -> int:
    """How many rows of a share are drawn for the fraction of its weight; no share is left out."""
    count = round(share.weight % 1 * (share.stop - share.start))
    return max(1, count) if share.weight < 1 else count


def _draw(share: Share, longer: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Draw from the rows in order of length, at equal distances from a random start.

    Every row has the probability count / rows, and an epoch has nearly the same lengths as another.
    """
    shuffled = np.arange(share.start, share.stop, dtype=np.int32)
    random.shuffle(shuffled)
    ordered = np.empty_like(shuffled)
    free = first_places([shuffled], longer)[:-1]
    for rows in chunks([shuffled]):
        ordered[take_places(longer[rows], free)] = rows
    start = random.random()
    drawn = np.empty(count, np.int32)
    for draws in chunks([range(count)]):
        places = ((draws + start) * (len(ordered) / count)).astype(np.int64)
        # The bound is what rounding could exceed.
        drawn[draws] = ordered[np.minimum(places, _bounds(draws, len(ordered), count))]
    return drawn


def _bounds(draws: np.ndarray, rows: int, count: int) -> np.ndarray:
    """The last place that each draw, by its number, can come from."""
    return -(-(draws.astype(np.int64) + 1) * rows // count) - 1


def longest_visits(longer: np.ndarray, shares: Sequence[Share]) -> np.ndarray:
    """Ascending lengths that the visits of no epoch exceed, compared one by one in order.

    Batches cut by these lengths fit in every epoch, so every epoch has equally many.
    """
    found = []
    for share in shares:
        ordered = np.sort(longer[share.start : share.stop])
        found += [ordered] * int(share.weight)
        if count := _draws(share):
            found += [ordered[_bounds(n, len(ordered), count)] for n in chunks([range(count)])]
    if len(found) == 1:
        return found[0]
    together = np.concatenate(found)
    together.sort()
    return together

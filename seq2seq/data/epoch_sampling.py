"""The rows that an epoch samples from corpora with weights."""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2seq.data.corpus import Share

# Rows processed at a time, so that temporary arrays stay small.
CHUNK = 2**16


def sample(
    longer: np.ndarray, shares: Sequence[Share], random: np.random.Generator
) -> list[range | np.ndarray]:
    """The rows of an epoch, with repetitions, as ranges and as int32 arrays.

    A share of weight w is taken whole floor(w) times; for the remaining fraction, rows are drawn
    without replacement, all with the same probability.

    Args:
        longer: (rows,) longer side of each pair.
        shares: rows and weights.
        random: source of the draws.
    """
    sampled: list[range | np.ndarray] = []
    for share in shares:
        sampled += [range(share.start, share.stop)] * int(share.weight)
        if count := draw_count(share):
            sampled.append(draw(share, longer, count, random))
    return sampled


def chunks(sampled: Sequence[range | np.ndarray]) -> Iterator[np.ndarray]:
    """The same rows in the same order, int32, at most CHUNK in an array."""
    for rows in sampled:
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            if isinstance(part, range):
                part = np.arange(part.start, part.stop, dtype=np.int32)
            yield part


def length_starts(sampled: Sequence[range | np.ndarray], longer: np.ndarray) -> np.ndarray:
    """The first position of the rows of each length when all are sorted by length.

    Returns: (longest + 2,) int64; the last is the number of rows.
    """
    ends = np.zeros(int(longer.max(initial=0)) + 2, np.int64)
    for rows in chunks(sampled):
        ends[1:] += np.bincount(longer[rows], minlength=len(ends) - 1)
    return np.cumsum(ends)


def counting_sort(lengths: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The position of each of some rows in a stable sort by length: a counting sort, in parts.

    Args:
        lengths: of the next rows.
        free: (lengths,) the first free position of each length; advanced in place.
    """
    counts = np.bincount(lengths, minlength=len(free))
    # A stable sort of 16-bit integers takes linear time.
    order = np.argsort(lengths, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) + np.repeat(free - np.cumsum(counts) + counts, counts)
    free += counts
    return places


def draw_count(share: Share) -> int:
    """The number of rows drawn for the fraction of a share's weight; no share gets none."""
    count = round(share.weight % 1 * (share.stop - share.start))
    return max(1, count) if share.weight < 1 else count


def draw(share: Share, longer: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Draw from the rows in order of length, at equal distances from a random start.

    Every row has the probability count / rows, and all epochs have nearly the same lengths.
    """
    shuffled = np.arange(share.start, share.stop, dtype=np.int32)
    random.shuffle(shuffled)
    ordered = np.empty_like(shuffled)
    free = length_starts([shuffled], longer)[:-1]
    for rows in chunks([shuffled]):
        ordered[counting_sort(longer[rows], free)] = rows
    start = random.random()
    drawn = np.empty(count, np.int32)
    for draws in chunks([range(count)]):
        places = ((draws + start) * (len(ordered) / count)).astype(np.int64)
        # Rounding could exceed the bound.
        drawn[draws] = ordered[np.minimum(places, bounds(draws, len(ordered), count))]
    return drawn


def bounds(draws: np.ndarray, rows: int, count: int) -> np.ndarray:
    """The last position that each draw, by its index, can come from."""
    return -(-(draws.astype(np.int64) + 1) * rows // count) - 1


def max_lengths(longer: np.ndarray, shares: Sequence[Share]) -> np.ndarray:
    """Ascending lengths that no epoch's sorted lengths exceed, element by element.

    Batches cut by these lengths fit in every epoch, so all epochs have equally many.
    """
    lengths = []
    for share in shares:
        ordered = np.sort(longer[share.start : share.stop])
        lengths += [ordered] * int(share.weight)
        if count := draw_count(share):
            lengths += [ordered[bounds(n, len(ordered), count)] for n in chunks([range(count)])]
    together = np.concatenate(lengths)
    together.sort()
    return together

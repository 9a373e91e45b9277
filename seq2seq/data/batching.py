"""Form batches of bounded size with little padding: the order of an epoch."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from seq2seq.data.corpus import Share
from seq2seq.data.epoch_sampling import chunks, counting_sort, length_starts, max_lengths, sample
from seq2seq.errors import ConfigError

# Noise, in pieces, on the order of rows with the same longer side. More noise makes batches differ
# more between epochs, and adds padding: 3 costs 1 to 4 % of the cells.
MIXING = 3.0


class EpochBatches:
    """The global batches of an epoch: arrays of row indices, views of a single array.

    Args:
        order: (samples,) int32, rows in order of length.
        ends: (batches,) where in `order` each batch ends.
        sequence: (batches,) the index of the first batch, of the second, ...
    """

    def __init__(self, order: np.ndarray, ends: np.ndarray, sequence: np.ndarray):
        self._order, self._ends, self._sequence = order, ends, sequence

    def __len__(self) -> int:
        return len(self._sequence)

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> np.ndarray:
        i = self._sequence[index]
        return self._order[self._ends[i - 1] if i else 0 : self._ends[i]]


def epoch_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    shares: Sequence[Share] = (),
) -> EpochBatches:
    """The global batches of an epoch, a pure function of its arguments.

    Rows are sorted by their longer side and then, with noise, by the shorter one. The order is cut
    wherever a batch is full, and the batches are shuffled. The cuts depend on the longer sides
    alone, so every epoch has the same number of batches, though with other rows. Without shares,
    each row is in exactly one batch.

    Peak memory is about 10 bytes per sample, and 28 more per sample of the most frequent length;
    the result takes 4 per sample.

    Args:
        source_lengths: (rows,) pieces of each source, EOS not counted.
        target_lengths: (rows,) likewise.
        max_tokens: bound on the padded tokens of one side of a batch: rows times the longest
            sentence of either side with its EOS.
        seed: 0 or more.
        epoch: 0 or more.
        shuffle: False for no noise and batches in order of length.
        shares: how often rows are sampled; none: each once.

    Raises: ConfigError if a single row has more than `max_tokens`.
    """
    longer = longer_sides(source_lengths, target_lengths)
    shares = shares or [Share(0, len(longer), 1)]
    cuts = np.array(batch_ends(max_lengths(longer, shares), max_tokens), np.int64)
    random = np.random.default_rng((seed, epoch))
    order = epoch_order(longer, target_lengths, source_lengths, shares, random, MIXING * shuffle)
    sequence = random.permutation(len(cuts)) if shuffle else np.arange(len(cuts))
    return EpochBatches(order, cuts, sequence)


def epoch_order(
    longer: np.ndarray,
    target_lengths: np.ndarray,
    source_lengths: np.ndarray,
    shares: Sequence[Share],
    random: np.random.Generator,
    mixing: float,
) -> np.ndarray:
    """The rows of an epoch, int32, sorted by the longer side, then by the difference of the sides
    plus noise between 0 and `mixing`.
    """
    sampled = sample(longer, shares, random)
    starts = length_starts(sampled, longer)
    free = starts[:-1].copy()
    order = np.empty(starts[-1], np.int32)
    differences = np.empty(starts[-1], np.float32)
    for rows in chunks(sampled):
        lengths = longer[rows]
        difference = (target_lengths[rows] - source_lengths[rows]).astype(np.float32)
        if mixing:
            difference += random.random(len(rows), dtype=np.float32) * mixing
        # Up and down in turn, so that a batch across two lengths has similar differences.
        difference[lengths % 2 == 1] *= -1
        places = counting_sort(lengths, free)
        order[places], differences[places] = rows, difference
    for start, end in pairwise(starts.tolist()):
        # All these rows have the same longer side.
        order[start:end] = order[start:end][stable_argsort(differences[start:end])]
    return order


def stable_argsort(values: np.ndarray) -> np.ndarray:
    """`np.argsort(values, kind="stable")` of float32 without NaN, in a quarter of the time.

    The bits of a float, as an integer, have its order if those of negative ones are inverted. With
    the index below them no two are equal, so any sort is stable, and the vectorised one is fast.
    """
    bits = (values + np.float32(0)).view(np.int32)  # no -0.0
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32
    keys |= np.arange(len(keys))
    keys.sort()
    return keys & 0xFFFFFFFF


def longer_sides(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """(rows,) pieces of the longer side of each pair, uint16 if that is enough."""
    longest = max(source_lengths.max(initial=0), target_lengths.max(initial=0))
    kind = np.uint16 if longest < 2**16 else np.int32
    longer: np.ndarray = np.maximum(source_lengths, target_lengths, dtype=kind, casting="unsafe")
    return longer


def batch_ends(longer: np.ndarray, max_tokens: int) -> list[int]:
    """The end of each batch, if ascending lengths (EOS not counted) fill one after the other."""
    longest = int(longer[-1]) + 1 if len(longer) else 0
    if longest > max_tokens:
        raise ConfigError(
            f"the longest sentence has {longest} pieces with its end symbol, but "
            f"data.max_tokens={max_tokens}: type data.max_tokens={longest} or more"
        )
    stops, start = [], 0
    while start < len(longer):
        max_rows = max_tokens // (int(longer[start]) + 1)
        ahead = longer[start : start + max_rows]
        if ahead[-1] == ahead[0]:  # as nearly everywhere in a large corpus
            start += len(ahead)
        else:
            cells = (ahead.astype(np.int64) + 1) * np.arange(1, len(ahead) + 1)
            start += int(np.searchsorted(cells, max_tokens, side="right"))
        stops.append(start)
    return stops

"""Form batches of bounded size with little padding, and load them for training and evaluation.

The global batch of a step is formed first and then cut for ranks and accumulation steps, so the
data of a step does not depend on the number of devices.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import numpy as np

from seq2seq.data.batch import Batch, make_batch
from seq2seq.data.corpus import Corpus, Share
from seq2seq.data.epoch_sampling import chunks, counting_sort, length_starts, max_lengths, sample
from seq2seq.data.prefetch import prefetched
from seq2seq.data.subword_regularization import Resegmented, SubwordRegularization
from seq2seq.environment import return_memory
from seq2seq.errors import ConfigError

# Noise, in pieces, on the order of rows with the same longer side. More noise makes batches differ
# more between epochs, and adds padding: 3 costs 1 to 4 % of the cells.
MIXING = 3.0
PREFETCHED = 4  # batches made before they are used
READ_AHEAD = 16  # batches of which the disk is told before they are made


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
    cuts = np.array(ends(max_lengths(longer, shares), max_tokens), np.int64)
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


def ends(longer: np.ndarray, max_tokens: int) -> list[int]:
    """Where each batch ends when ascending lengths (EOS not counted) fill them in turn."""
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


def share(batch: np.ndarray, rank: int, world: int, step: int, steps: int) -> np.ndarray:
    """The rows of a global batch for one rank and one accumulation step; may be empty.

    The pieces are disjoint and make up the batch. Each takes every n-th row, so all have similar
    lengths and equal work.
    """
    return batch[step * world + rank :: world * steps]


class BatchLoader:
    """Training batches for one rank, in an order that a checkpoint can resume in mid-epoch.

    An iteration is one epoch. `state_dict` is the same on every rank and for any number of ranks;
    resuming in mid-epoch needs the same data, `max_tokens`, `seed` and `steps`.

    Args:
        corpus: the training pairs, and how often an epoch sees each.
        max_tokens: padded tokens of a global batch, see `epoch_batches`.
        seed: of the order, 0 or more.
        rank: this process, of `world`.
        world: processes that share each global batch.
        steps: accumulation steps of each global batch.
        subwords: segments the pairs differently in each epoch; None: always alike.

    Raises: ConfigError as `epoch_batches` does; ValueError for an argument out of range.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        max_tokens: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        steps: int = 1,
        subwords: SubwordRegularization | None = None,
    ):
        if not 0 <= rank < world or steps < 1 or seed < 0:
            raise ValueError(f"rank={rank}, world={world}, steps={steps}, seed={seed}")
        self.corpus, self.max_tokens, self.seed = corpus, max_tokens, seed
        self.rank, self.world, self.steps = rank, world, steps
        self.subwords = subwords
        plain = corpus.source_lengths, corpus.target_lengths
        self.lengths = plain if subwords is None else subwords.rooms  # of sources, of targets
        longer = longer_sides(*self.lengths)
        self._length = len(ends(max_lengths(longer, corpus.shares), max_tokens)) * steps
        self._epoch, self._position, self._resume = -1, 0, False

    def __len__(self) -> int:
        """Batches of this rank in an epoch: global batches times accumulation steps."""
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        # The epoch is counted here and not after the loop: a reader that knows the length stops at
        # the last batch, so code after the loop would never run.
        if self._resume:
            start, self._resume = self._position, False
        else:
            start = 0
            self._epoch += 1
        batches = self.batches(self._epoch)
        self.corpus.release()
        # Not even of freed memory is all returned that another thread than the main one allocated.
        return_memory()
        pieces = self._pieces(batches, self._epoch, start)
        del batches
        with closing(prefetched(pieces, PREFETCHED)) as made:
            for self._position, piece in enumerate(made, start=start + 1):
                if self._position == self._length:
                    # A reader that knows the length suspends this frame here while it starts the
                    # next epoch: two orders would be in memory.
                    made.close()
                yield piece

    def _pieces(self, batches: EpochBatches, epoch: int, start: int) -> Iterator[Batch]:
        """This rank's batches of an epoch from a position on."""
        told, rows = start // self.steps, self.rows(epoch)
        for position in range(start, self._length):
            index, step = divmod(position, self.steps)
            if step == 0:
                rows = self.rows(epoch)
            while told < min(index + READ_AHEAD, len(batches)):
                self.corpus.read_ahead(batches[told][self.rank :: self.world])
                told += 1
            yield self.piece(rows, batches[index], step)

    def batches(self, epoch: int) -> EpochBatches:
        """The global batches of an epoch."""
        return epoch_batches(
            *self.lengths,
            max_tokens=self.max_tokens,
            seed=self.seed,
            epoch=epoch,
            shares=self.corpus.shares,
        )

    def rows(self, epoch: int) -> Corpus | Resegmented:
        """The pairs of an epoch; a drawn segmentation is kept as long as this object."""
        return self.corpus if self.subwords is None else Resegmented(self.subwords, epoch)

    def piece(self, rows: Corpus | Resegmented, batch: np.ndarray, step: int) -> Batch:
        """This rank's part of a global batch in one accumulation step."""
        mine = share(batch, self.rank, self.world, step, self.steps)
        return make_batch(rows, mine, *count(rows, batch))

    def state_dict(self) -> dict[str, int]:
        """The epoch, counted from 0, and how many of its batches were yielded."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the last batch that was yielded when `state` was taken.

        Raises: ConfigError if an epoch of this loader is shorter.
        """
        if state["position"] > self._length:
            raise ConfigError(
                f"the checkpoint is at batch {state['position']} of its epoch, but here an "
                f"epoch has {self._length}. Resume with the data, data.max_tokens and accumulation "
                "steps that the interrupted run had"
            )
        self._epoch, self._position = state["epoch"], state["position"]
        self._resume = self._epoch >= 0 and self._position < self._length


class EvalBatches:
    """All pairs once over all ranks, in order of length, equally many batches for every rank.

    Batches are made in each iteration anew. A rank without a sentence in a batch gets the dummy row
    of `make_batch`, with empty `indices`.

    Raises: ConfigError as `epoch_batches` does.
    """

    def __init__(self, corpus: Corpus, *, max_tokens: int, rank: int = 0, world: int = 1):
        lengths = corpus.source_lengths, corpus.target_lengths
        self._batches = epoch_batches(
            *lengths, max_tokens=max_tokens, seed=0, epoch=0, shuffle=False
        )
        self._corpus, self._rank, self._world = corpus, rank, world

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            mine = share(batch, self._rank, self._world, 0, 1)
            yield make_batch(self._corpus, mine, *count(self._corpus, batch))


def count(rows: Corpus | Resegmented, batch: np.ndarray) -> tuple[int, int]:
    """The divisors of a global batch's losses: its target tokens, EOS counted, and its target
    pieces that have links.
    """
    return rows.count_tokens(batch), rows.links.count(batch) if rows.links else 0

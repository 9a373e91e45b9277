"""Load batches for training and evaluation.

The global batch of a step is formed first and then cut for ranks and accumulation steps, so the
data of a step does not depend on the number of devices.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from seq2seq.data.batch import Batch, make_batch
from seq2seq.data.batching import EpochBatches, batch_ends, epoch_batches, longer_sides
from seq2seq.data.corpus import Corpus
from seq2seq.data.epoch_sampling import max_lengths
from seq2seq.data.prefetch import prefetch
from seq2seq.data.subword_regularization import Resegmented, SubwordRegularization
from seq2seq.data.token_cutoff import draw_cuts
from seq2seq.environment import return_memory
from seq2seq.errors import ConfigError

PREFETCHED = 4  # batches made before they are used
READ_AHEAD = 16  # batches of which the disk is told before they are made


def select_share(batch: np.ndarray, rank: int, world: int, step: int, steps: int) -> np.ndarray:
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
        cut: probability that an input is hidden in a second pass, see `draw_cuts`; 0: one pass.

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
        cut: float = 0.0,
    ):
        if not 0 <= rank < world or steps < 1 or seed < 0:
            raise ValueError(f"rank={rank}, world={world}, steps={steps}, seed={seed}")
        self.corpus, self.max_tokens, self.seed = corpus, max_tokens, seed
        self.rank, self.world, self.steps = rank, world, steps
        self.subwords, self.cut = subwords, cut
        plain = corpus.source_lengths, corpus.target_lengths
        self.lengths = plain if subwords is None else subwords.rooms  # of sources, of targets
        longer = longer_sides(*self.lengths)
        self._length = len(batch_ends(max_lengths(longer, corpus.shares), max_tokens)) * steps
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
        self.corpus.release_memory()
        # Not even of freed memory is all returned that another thread than the main one allocated.
        return_memory()
        # No name here holds what the thread makes them from: it may stop just before their end.
        made_ahead = prefetch(self._make_pieces(batches, self._epoch, start), PREFETCHED)
        del batches
        with closing(made_ahead) as made:
            for self._position, piece in enumerate(made, start=start + 1):
                if self._position == self._length:
                    # A reader that knows the length suspends this frame here while it starts the
                    # next epoch: two orders would be in memory.
                    made.close()
                yield piece

    def _make_pieces(self, batches: EpochBatches, epoch: int, start: int) -> Iterator[Batch]:
        """This rank's batches of an epoch from a position on."""
        told, rows = start // self.steps, self.rows(epoch)
        for position in range(start, self._length):
            index, step = divmod(position, self.steps)
            if step == 0:
                rows = self.rows(epoch)
            while told < min(index + READ_AHEAD, len(batches)):
                self.corpus.read_ahead(batches[told][self.rank :: self.world])
                told += 1
            yield self.piece(rows, batches[index], step, epoch)

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

    def piece(self, rows: Corpus | Resegmented, batch: np.ndarray, step: int, epoch: int) -> Batch:
        """This rank's part of a global batch in one accumulation step."""
        mine = select_share(batch, self.rank, self.world, step, self.steps)
        piece = make_batch(rows, mine, *count_targets(rows, batch))
        if not self.cut:
            return piece
        return piece._replace(cuts=draw_cuts(piece, self.cut, self.seed, epoch))

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
            mine = select_share(batch, self._rank, self._world, 0, 1)
            yield make_batch(self._corpus, mine, *count_targets(self._corpus, batch))


def count_targets(rows: Corpus | Resegmented, batch: np.ndarray) -> tuple[int, int]:
    """The divisors of a global batch's losses: its target tokens, EOS counted, and its target
    pieces that have links.
    """
    return rows.count_tokens(batch), rows.links.count(batch) if rows.links else 0

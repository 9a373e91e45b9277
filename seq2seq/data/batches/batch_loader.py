"""Load batches for training and evaluation.

The global batch of a step is formed first and then divided among ranks and accumulation steps, so
the data of a step does not depend on the number of devices. A thread makes batches ahead of use.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from seq2seq.base.environment import return_memory
from seq2seq.base.errors import ConfigError
from seq2seq.data.augment.augmentation import Augmentation
from seq2seq.data.augment.subword_regularization import SubwordRegularization
from seq2seq.data.batches.batch import Batch, Rows, draw_cuts, make_batch
from seq2seq.data.batches.batching import (
    EpochBatches,
    batch_ends,
    epoch_batches,
    longer_sides,
    max_lengths,
)
from seq2seq.data.batches.packed import Capacity, pack_batch
from seq2seq.data.batches.stages import Stage
from seq2seq.data.batches.transfer import Sent, Transfer
from seq2seq.data.corpus.corpus import Corpus

PREFETCHED = 4  # batches made before they are used
READ_AHEAD = 16  # batches to read ahead
T = TypeVar("T")


def select_share(batch: np.ndarray, rank: int, world: int, step: int, steps: int) -> np.ndarray:
    """The rows of a global batch for one rank and one accumulation step; may be empty.

    The shares are disjoint and together make up the batch. Each takes every n-th row, so all have
    similar lengths and equal work.
    """
    return batch[step * world + rank :: world * steps]


class Pass(NamedTuple):
    """One pass over the corpus: its number and its first update, both counted from 0."""

    number: int
    begin: int


class BatchLoader:
    """Training batches for one rank, in an order that a checkpoint can resume in mid-epoch.

    An iteration is one epoch, with as many batches as the first pass over the corpus. If pairs are
    augmented or weights change, other passes have more or fewer batches and end within epochs. The
    last pass of a stage is cut short, so the next stage begins exactly at its update.

    `state_dict` is the same on every rank and for any number of ranks; resuming in mid-epoch needs
    the same data, `max_tokens`, `seed` and `steps`.

    Args:
        corpus: the training pairs, and how often an epoch sees each.
        max_tokens: padded tokens of a global batch, see `epoch_batches`.
        seed: seed of the order, 0 or more.
        rank: number of this process, from 0 to `world` - 1.
        world: number of processes that share each global batch.
        steps: accumulation steps of each global batch.
        variants: source of changed pairs or other segmentations in each pass; None = all passes
            have the pairs of the corpus.
        stages: weights that change with the update; empty to use the weights of the corpus.
        cut: probability of hiding an input in a second pass, see `draw_cuts`; 0 for one pass.
        device: device that the batches are sent to ahead of their use.
        capacity: constant size to pack the batches to; None to leave them padded only.

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
        variants: Augmentation | SubwordRegularization | None = None,
        stages: Sequence[Stage] = (),
        cut: float = 0.0,
        device: torch.device | None = None,
        capacity: Capacity | None = None,
    ):
        if not 0 <= rank < world or steps < 1 or seed < 0:
            raise ValueError(f"rank={rank}, world={world}, steps={steps}, seed={seed}")
        self.corpus, self.max_tokens, self.seed = corpus, max_tokens, seed
        self.rank, self.world, self.steps = rank, world, steps
        self.variants, self.cut, self.capacity = variants, cut, capacity
        self.transfer = Transfer(device or torch.device("cpu"))
        self.stages = stages or (Stage(None, corpus.shares),)
        longer = longer_sides(*self.lengths(0))
        lengths = max_lengths(longer, self.stages[0].shares)
        self._length = len(batch_ends(lengths, max_tokens)) * steps
        self._epoch, self._position, self._resume = -1, 0, False
        self._pass = Pass(0, 0)  # pass of the next batch

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
        batches = self.batches(*self._pass)
        self.corpus.release_memory()
        # Freed memory that another thread allocated is not all returned by itself.
        return_memory()
        # Keep no reference here to the thread's inputs: it may stop just before the end.
        pieces = self._make_pieces(batches, self._pass, self._epoch * self._length + start)
        made_ahead = prefetch(pieces, PREFETCHED)
        del batches, pieces
        with closing(made_ahead) as made:
            for self._position, (self._pass, piece) in enumerate(made, start=start + 1):
                if self._position == self._length:
                    # A reader that knows the length suspends this frame here and starts the next
                    # epoch; without this, two orders would be in memory.
                    made.close()
                yield self.transfer.receive(piece)

    def _make_pieces(
        self, batches: EpochBatches, begun: Pass, start: int
    ) -> Iterator[tuple[Pass, Sent]]:
        """Yield this rank's batches to the end of the epoch, each with the pass of the next batch.

        `start` counts batches over all epochs.
        """
        first, skipped = divmod(start, self.steps)
        an_epoch = self._length // self.steps
        updates = range(first, (first // an_epoch + 1) * an_epoch)
        for this, after, batch in self._global_batches(batches, begun, updates):
            rows = self.rows(this.number)
            for step in range(skipped, self.steps):
                piece = self.piece(rows, batch, step, this.number)
                yield (after if step == self.steps - 1 else this), self.transfer.send(piece)
            skipped = 0

    def _global_batches(
        self, batches: EpochBatches, this: Pass, updates: range
    ) -> Iterator[tuple[Pass, Pass, np.ndarray]]:
        """Yield for each update its pass, the pass of the next update, and the global batch."""
        start, told = updates.start, 0
        while True:
            until, count = self._stage(this.begin).until, len(batches)
            end = this.begin + count if until is None else min(until, this.begin + count)
            following = Pass(this.number + 1, end)
            for update in range(start, min(end, updates.stop)):
                index = update - this.begin
                told = max(told, index)
                while told < min(index + READ_AHEAD, end - this.begin):
                    self.corpus.read_ahead(batches[told][self.rank :: self.world])
                    told += 1
                yield this, following if update + 1 == end else this, batches[index]
            if end >= updates.stop:
                return
            this, start, told = following, end, 0
            del batches  # free this order before the next is made
            batches = self.batches(*this)

    def _stage(self, update: int) -> Stage:
        """The stage that an update belongs to."""
        return next(each for each in self.stages if each.until is None or update < each.until)

    def lengths(self, epoch: int) -> Sequence[np.ndarray]:
        """Maximum pieces of each source and each target in a pass, (rows,), EOS not counted."""
        return self.corpus.lengths if self.variants is None else self.variants.lengths(epoch)

    def batches(self, epoch: int, begin: int = 0) -> EpochBatches:
        """The global batches of a pass, with the weights that apply at its first update."""
        return epoch_batches(
            *self.lengths(epoch),
            max_tokens=self.max_tokens,
            seed=self.seed,
            epoch=epoch,
            shares=self._stage(begin).shares,
        )

    def rows(self, epoch: int) -> Rows:
        """The pairs of a pass; drawn rows are cached as long as the returned object lives."""
        return self.corpus if self.variants is None else self.variants.rows(epoch)

    def piece(self, rows: Rows, batch: np.ndarray, step: int, epoch: int) -> Batch:
        """This rank's part of a global batch in one accumulation step."""
        mine = select_share(batch, self.rank, self.world, step, self.steps)
        piece = make_batch(rows, mine, *count_targets(rows, batch))
        if self.capacity is not None:
            sides = piece.source, piece.target, piece.places
            piece = piece._replace(packed=pack_batch(*sides, self.capacity))
        if not self.cut:
            return piece
        return piece._replace(cuts=draw_cuts(piece, self.cut, self.seed, epoch))

    def state_dict(self) -> dict[str, int]:
        """The epoch (from 0) and the number of its batches already yielded; also the pass of the
        next batch if passes and epochs differ.
        """
        state = {"epoch": self._epoch, "position": self._position}
        if self._pass != self._regular_pass():
            state |= {"pass": self._pass.number, "begin": self._pass.begin}
        return state

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the last batch that was yielded when `state` was taken.

        Raises: ConfigError if this loader's epochs have fewer batches than `state` counts.
        """
        if state["position"] > self._length:
            raise ConfigError(
                f"the checkpoint is at batch {state['position']} of its epoch, but here an "
                f"epoch has {self._length}. Resume with the data, data.max_tokens and accumulation "
                "steps that the interrupted run had"
            )
        self._epoch, self._position = state["epoch"], state["position"]
        self._resume = self._epoch >= 0 and self._position < self._length
        regular = self._regular_pass()
        self._pass = Pass(state.get("pass", regular.number), state.get("begin", regular.begin))

    def _regular_pass(self) -> Pass:
        """The pass of the next batch, if every epoch is one pass."""
        done = self._position == self._length or self._epoch < 0
        number = self._epoch + done
        return Pass(number, number * self._length // self.steps)


class EvalBatches:
    """Each pair once, in order of length, divided among all ranks with equally many batches each.

    Each iteration makes its batches again. A rank without a sentence in a batch gets the dummy row
    of `make_batch`, with empty `indices`.

    Raises: ConfigError as `epoch_batches` does.
    """

    def __init__(self, corpus: Corpus, *, max_tokens: int, rank: int = 0, world: int = 1):
        self._batches = epoch_batches(
            *corpus.lengths, max_tokens=max_tokens, seed=0, epoch=0, shuffle=False
        )
        self._corpus, self._rank, self._world = corpus, rank, world

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            mine = select_share(batch, self._rank, self._world, 0, 1)
            yield make_batch(self._corpus, mine, *count_targets(self._corpus, batch))


def count_targets(rows: Rows, batch: np.ndarray) -> tuple[int, int]:
    """The divisors of a global batch's losses: its numbers of target tokens, EOS counted, and of
    target pieces with links.
    """
    return rows.count_tokens(batch), rows.links.count_linked(batch) if rows.links else 0


def prefetch(items: Iterable[T], count: int) -> Generator[T, None, None]:
    """Yield the same items in the same order; a thread makes up to `count` items ahead.

    The thread ends with the last item, or when this iterator is closed.

    Raises: any error of `items`, after the items that precede it.
    """
    iterator, thread = iter(items), ThreadPoolExecutor(1)
    made = deque(thread.submit(next, iterator, None) for _ in range(count))
    try:
        while (item := made.popleft().result()) is not None:
            made.append(thread.submit(next, iterator, None))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)

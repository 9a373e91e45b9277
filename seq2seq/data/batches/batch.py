"""Rows of a corpus as two padded tensors: all the data of a training step, and the inputs that
token cutoff hides in a second, harder view of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.augment.subword_regularization import PassRows
from seq2seq.data.batches.packed import Packed
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.links.piece_links import BatchLinks

Rows = Corpus | PassRows  # the rows of one epoch
FIRST_STREAM = 2  # first stream of token cutoff; BPE dropout uses streams 0 and 1 of a row


class Batch(NamedTuple):
    """B sentence pairs; S and T are the longest source and target, EOS counted.

    The decoder reads `target[:, :-1]` and predicts `target[:, 1:]`.

    Attributes:
        source: (B, S) int32, the pieces, EOS, then PAD.
        target: (B, T + 1) int32, BOS, the pieces, EOS, then PAD.
        places: (R,) int32, the cells of `target[:, 1:]`, counted row by row, that are not PAD. They
            are found on the host: a GPU would have to report how many there are.
        labels: (R,) int64, the pieces in these cells.
        total: target tokens of the global batch, over all ranks and accumulation steps: the divisor
            of the summed loss.
        indices: (B,) int64, the corpus row of each sentence; empty for a batch without sentences.
        links: links between pieces, if the corpus has links.
        cuts: masks of the inputs hidden in a second pass, True where hidden: (B, S) for the source
            and (B, T) for the decoder input; None for a single pass.
        packed: the same tokens without padding between sentences; None if a pass reads the padded.
    """

    source: Tensor
    target: Tensor
    places: Tensor
    labels: Tensor
    total: int
    indices: np.ndarray
    links: BatchLinks | None = None
    cuts: tuple[Tensor, Tensor] | None = None
    packed: Packed | None = None

    @property
    def tokens(self) -> int:
        """Target tokens of these sentences, R: EOS counted, BOS not."""
        return len(self.labels)


def pair_batch(
    source: Tensor,
    target: Tensor,
    total: int,
    indices: Sequence[int] | np.ndarray,
    links: BatchLinks | None = None,
) -> Batch:
    """The batch of two padded sides, with the places of its target tokens; arguments as there."""
    cells = target[:, 1:].flatten()
    (places,) = (cells != PAD).nonzero(as_tuple=True)
    labels, rows = cells[places].long(), np.asarray(indices, np.int64)
    return Batch(source, target, places.int(), labels, total, rows, links)


def make_batch(
    corpus: Rows, indices: Sequence[int] | np.ndarray, total: int, linked: int = 0
) -> Batch:
    """Make a batch of the rows `indices` of a corpus, padded to the longest of each side.

    Args:
        total: target tokens of the global batch.
        linked: target pieces of the global batch that have links.

    Without indices, the batch is one dummy row: its source is EOS alone, its target BOS and PAD. A
    rank that gets no sentence of a small global batch thus runs as many steps as the others, and
    adds nothing to the loss or the gradient.
    """
    rows = [int(index) for index in indices]
    links = None if corpus.links is None else corpus.links.of_batch(rows, linked)
    if rows:
        source = with_end([corpus.source(i) for i in rows])
        target = with_end([corpus.target(i) for i in rows], BOS)
    else:
        source, target = (torch.tensor([ids], dtype=torch.int32) for ids in ([EOS], [BOS, PAD]))
    return pair_batch(source, target, total, rows, links)


def with_end(rows: Sequence[Sequence[int] | np.ndarray], *start: int) -> Tensor:
    """Pad rows to (B, width) int32; each row is `start`, the ids, EOS, then PAD."""
    first = len(start)
    ids = np.full((len(rows), first + max(map(len, rows)) + 1), PAD, np.int32)
    ids[:, :first] = start
    for i, row in enumerate(rows):
        ids[i, first : first + len(row)] = row
        ids[i, first + len(row)] = EOS
    return torch.from_numpy(ids)


def draw_cuts(batch: Batch, p: float, seed: int, epoch: int) -> tuple[Tensor, Tensor]:
    """Draw the inputs to hide, each with probability p: a pure function of (seed, epoch, row,
    side), so the draws of a row do not depend on its batch.

    BOS of the target, EOS of the source, and padding are never cut, as in the authors' programs.

    Args:
        p: 0 <= p < 1.
        seed: 0 <= seed < 2^32.

    Returns: True where cut, (B, S) and (B, T).
    Source: Shen et al. 2020, arXiv:2009.13818; for translation Gao et al. 2022, arXiv:2206.02368.
    """
    bound = np.uint64(int(p * 2**64))
    source, target = (
        draw_rows(batch.indices, ids, bound, (seed, epoch), FIRST_STREAM + side)
        for side, ids in enumerate((batch.source, batch.target[:, :-1]))
    )
    return source, target


def draw_rows(
    rows: np.ndarray, ids: Tensor, bound: np.uint64, key: tuple[int, int], stream: int
) -> Tensor:
    """Draw the cuts of one side, ids (B, T), from a counter-based generator (Philox; Salmon et al.
    2011).
    """
    cut = np.zeros(ids.shape, bool)
    for i, row in enumerate(rows.tolist()):
        generator = np.random.Philox(key=key, counter=[0, 0, row, stream])
        cut[i] = generator.random_raw(ids.shape[1]) < bound
    return torch.from_numpy(cut) & (ids > EOS)

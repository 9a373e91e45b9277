"""Rows of a corpus as two padded tensors: all that training needs to know of a step's data."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.links import BatchLinks, PieceLinks
from seq2seq.symbols import BOS, EOS, PAD


class Batch(NamedTuple):
    """Sentence pairs side by side. B sentences, S longest source, T longest target, ends counted.

    The decoder reads `target[:, :-1]` and is asked for `target[:, 1:]`.

    Attributes:
        source: (B, S) int64, the pieces, EOS, then PAD.
        target: (B, T + 1) int64, BOS, the pieces, EOS, then PAD.
        total: target tokens (EOS counted, BOS not) of the whole global batch this piece was cut
            from, over all ranks and accumulation steps: what the summed loss is divided by.
        indices: the corpus row of each sentence; empty if there is none.
        links: between pieces, if the corpus has them.
    """

    source: Tensor
    target: Tensor
    total: int
    indices: list[int]
    links: BatchLinks | None = None


class Rows(Protocol):
    """Pairs by number: a `Corpus`, or one as an epoch sees it."""

    @property
    def links(self) -> PieceLinks | None: ...

    def source(self, index: int) -> Sequence[int] | np.ndarray: ...

    def target(self, index: int) -> Sequence[int] | np.ndarray: ...


def make_batch(
    corpus: Rows, indices: Sequence[int] | np.ndarray, total: int, linked: int = 0
) -> Batch:
    """The rows `indices` of a corpus, padded to the longest of each side.

    Args:
        total: target tokens of the global batch.
        linked: its target pieces that have links.

    No indices make one row that asks for nothing: its source is EOS alone, its target BOS and then
    PAD. A rank for which a small global batch has no sentence so runs as many steps as the others,
    and adds nothing to the loss or the gradient.
    """
    rows = [int(index) for index in indices]
    links = None if corpus.links is None else corpus.links.of(rows, linked)
    if not rows:
        return Batch(torch.tensor([[EOS]]), torch.tensor([[BOS, PAD]]), total, [], links)
    sources, targets = [corpus.source(i) for i in rows], [corpus.target(i) for i in rows]
    source = np.full((len(rows), max(map(len, sources)) + 1), PAD, dtype=np.int64)
    target = np.full((len(rows), max(map(len, targets)) + 2), PAD, dtype=np.int64)
    target[:, 0] = BOS
    for place, ids in enumerate(sources):
        source[place, : len(ids)] = ids
        source[place, len(ids)] = EOS
    for place, ids in enumerate(targets):
        target[place, 1 : len(ids) + 1] = ids
        target[place, len(ids) + 1] = EOS
    return Batch(torch.from_numpy(source), torch.from_numpy(target), total, rows, links)

"""Token cutoff: the inputs of a batch that are hidden in a second, harder view of it."""

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.batch import Batch
from seq2seq.symbols import EOS

FIRST_STREAM = 2  # BPE dropout draws from the streams 0 and 1 of a row


def draw_cuts(batch: Batch, p: float, seed: int, epoch: int) -> tuple[Tensor, Tensor]:
    """The inputs that are cut, each with probability p: a pure function of (seed, epoch, row,
    side), so the draws of a row do not depend on the batch that it is in.

    The target's begin, the source's end and padding are never cut, as in the authors' programs.

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
    rows: list[int], ids: Tensor, bound: np.uint64, key: tuple[int, int], stream: int
) -> Tensor:
    """One side, from a counter-based generator (Philox; Salmon et al. 2011): ids (B, T)."""
    cut = np.zeros(ids.shape, bool)
    for i, row in enumerate(rows):
        generator = np.random.Philox(key=key, counter=[0, 0, row, stream])
        cut[i] = generator.random_raw(ids.shape[1]) < bound
    return torch.from_numpy(cut) & (ids > EOS)

"""From hidden states to the best next tokens."""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, PAD, UNK


class Candidates(NamedTuple):
    """The best next tokens of each row, best first."""

    logp: Tensor  # (N, C) log-probabilities, float32 at least
    ids: Tensor  # (N, C)


def top_candidates(model: Seq2Seq, hidden: Tensor, count: int) -> Candidates:
    """The `count` most probable next tokens of each row: hidden (N, E) -> (N, C).

    Symbols that no text contains (pad, bos, unk) are no candidates; probabilities are those of the
    model, not renormalised without them.
    """
    logits = model.logits(hidden)
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    logp[:, [PAD, BOS, UNK]] = -torch.inf
    return Candidates(*logp.topk(min(count, logp.shape[1])))

"""From hidden states to the best next tokens."""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.decoding.search import Ask
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, EOS, PAD, UNK


class Candidates(NamedTuple):
    """The best next tokens of each row, best first."""

    logp: Tensor  # (N, C) log-probabilities, float32 at least
    ids: Tensor  # (N, C)


def top_candidates(model: Seq2Seq, hidden: Tensor, ask: Ask) -> Candidates:
    """The most probable next tokens of each row: hidden (N, E) -> (N, C).

    Symbols that no text contains (pad, bos, unk) are no candidates; probabilities are those of the
    model, not renormalised without them. A row that is forced has its token first, and nothing of
    any probability behind it.
    """
    logits = model.logits(hidden)
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    forced = ask.forced
    own = None if forced is None else logp.gather(1, forced.clamp(min=0)[:, None])
    logp[:, [PAD, BOS, UNK]] = -torch.inf
    if ask.unending is not None:
        logp[:, EOS].masked_fill_(ask.unending, -torch.inf)
    best, ids = logp.topk(min(ask.count, logp.shape[1]))
    if forced is not None and own is not None:
        rows = forced >= 0
        best.masked_fill_(rows[:, None], -torch.inf)
        best[:, :1] = torch.where(rows[:, None], own, best[:, :1])
        ids[:, 0] = torch.where(rows, forced, ids[:, 0])
    return Candidates(best, ids)

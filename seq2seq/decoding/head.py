"""From hidden states to the best next tokens."""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.decoding.search import Ask
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, EOS, PAD, UNK

CHUNK = 20  # numbers of which at first only the largest is looked at


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
    best, ids = top_of_rows(logp, ask.count)
    if forced is not None and own is not None:
        rows = forced >= 0
        best.masked_fill_(rows[:, None], -torch.inf)
        best[:, :1] = torch.where(rows[:, None], own, best[:, :1])
        ids[:, 0] = torch.where(rows, forced, ids[:, 0])
    return Candidates(best, ids)


def top_of_rows(x: Tensor, count: int) -> Candidates:
    """As `topk`, exactly but for the order of equals: (N, V) -> (N, C) numbers and columns.

    The C largest numbers of a row lie in the C chunks whose largest numbers are the largest, so
    only these are searched. A chunk takes every w-th column: so the maxima of all chunks are found
    as fast as the row can be read.
    """
    V = x.shape[1]
    w = V // CHUNK
    if w < 4 * count:
        return Candidates(*x.topk(min(count, V)))
    maxima = x[:, : w * CHUNK].unflatten(1, (CHUNK, w)).amax(1)
    chunks = maxima.topk(count, sorted=False).indices  # (N, C)
    within = torch.arange(0, w * CHUNK, w, device=x.device)
    columns = (chunks[:, :, None] + within).flatten(1)  # (N, C * CHUNK)
    if w * CHUNK < V:
        rest = torch.arange(w * CHUNK, V, device=x.device).expand(len(x), -1)
        columns = torch.cat((columns, rest), dim=1)
    best, places = x.gather(1, columns).topk(count)
    return Candidates(best, columns.gather(1, places))

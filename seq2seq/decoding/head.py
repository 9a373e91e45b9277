"""From hidden states to the best next tokens."""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.decoding.search import Ask
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, EOS, PAD, UNK

# Numbers of which at first only the largest is looked at. `topk` is quick where a row has more than
# 64 C of these: with 8,000 pieces and the 10 candidates of 5 beams, if chunks are of 12 at most.
CHUNK = 10


class Candidates(NamedTuple):
    """The best next tokens of each row, best first."""

    logp: Tensor  # (N, C) log-probabilities, float32 at least
    ids: Tensor  # (N, C)


@torch.no_grad()
def top_candidates(model: Seq2Seq, hidden: Tensor, ask: Ask) -> Candidates:
    """The most probable next tokens of each row: hidden (N, E) -> (N, C).

    Symbols that no text contains (pad, bos, unk) are no candidates; probabilities are those of the
    model, not renormalised without them. A row that is forced has its token first, and nothing of
    any probability behind it.
    """
    logits = model.logits(hidden)
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # In place: a second tensor of N x V numbers would be too large for the caches.
    torch.log_softmax(logp, -1, out=logp)
    forced = ask.forced
    own = None if forced is None else logp.gather(1, forced.clamp(min=0)[:, None])
    for never in (PAD, BOS, UNK):
        logp[:, never] = -torch.inf
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

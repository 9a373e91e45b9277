"""Candidates for the next token: the request of a search, and the answer of a model.

A request contains everything that a search knows about the next token of each row: a prefix to
follow, a minimum length, banned repetitions, and tokens that its constraints ban, allow or require.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.base.symbols import EOS, NEVER_GENERATED

# Columns in a chunk, of which at first only the largest value is compared. `topk` is fast if a row
# has more than 64 C chunks: with 8,000 pieces and the 10 candidates of 5 beams, chunks of up to 12.
CHUNK = 10


def certain(token: Any) -> Any:
    """The entry of `CandidateRequest.forced` for a token that is given rather than predicted, such
    as the language of a translation: it has probability 1. The function is its own inverse.
    """
    return -2 - token


@dataclass(frozen=True)
class CandidateRequest:
    """A request for the candidates that a search needs for its next choice, for N = B * K rows.

    Attributes:
        count: number of candidates per row, C; all tokens if there are fewer.
        forced: (N,) token that each row must take, or `certain` of it; -1 = any; None = all rows
            are free.
        no_eos: (N,) bool, True for rows that may not end yet; None = all rows may end.
        banned: (M, 2) pairs of a row and a token that it may not take.
        allowed: (M, 2) pairs of a row and a token that it may take; a row in such a pair may take
            no other tokens.
        required: (N, R) tokens that are candidates whatever their rank, -1 = none. They come last,
            and have probability 0 there if they are also among the first C, or if the row may not
            take them.
        listed: (N, W) tokens that each row may use at all, ascending, then -1 as padding; the
            softmax is over these alone. None = all tokens.
        barred: (N, M) tokens that each row may not take, pad = none; the same as `banned`.
    """

    count: int
    forced: Tensor | None = None
    no_eos: Tensor | None = None
    banned: Tensor | None = None
    allowed: Tensor | None = None
    required: Tensor | None = None
    listed: Tensor | None = None
    barred: Tensor | None = None


class Candidates(NamedTuple):
    """Next tokens of each row: the most probable ones, best first, then the required ones."""

    logp: Tensor  # (N, C + R) log-probabilities, float32 at least
    ids: Tensor  # (N, C + R)


def top_candidates(logits: Tensor, request: CandidateRequest) -> Candidates:
    """The candidates for the next token of each row: logits (N, V), overwritten -> (N, C + R).

    Symbols that no text contains are excluded, but probabilities are not renormalised for that;
    with lists, they are normalised over the row's list. A forced row has its token first, and all
    its other candidates have probability 0.
    """
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if request.listed is not None:
        keep_listed(logp, request.listed)
    # In place: a second tensor (N, V) would not fit in the caches.
    torch.log_softmax(logp, -1, out=logp)
    forced = request.forced
    if forced is not None:
        token = torch.maximum(forced, certain(forced)).clamp(min=0)
        forced_logp = logp.gather(1, token[:, None]).masked_fill((forced < -1)[:, None], 0)
    for symbol in NEVER_GENERATED:
        logp[:, symbol].fill_(-torch.inf)
    if request.no_eos is not None:
        logp[:, EOS].masked_fill_(request.no_eos, -torch.inf)
    if request.barred is not None:
        logp.scatter_(1, request.barred, -torch.inf)
    if request.banned is not None:
        logp[tuple(request.banned.T)] = -torch.inf
    if request.allowed is not None:
        rows, tokens = request.allowed.T
        kept = logp[rows, tokens]
        logp[rows] = -torch.inf
        logp[rows, tokens] = kept
    best, ids = top_of_rows(logp, request.count)
    if request.required is not None:
        best, ids = with_required(logp, best, ids, request.required)
    if forced is not None:
        rows = forced != -1
        best.masked_fill_(rows[:, None], -torch.inf)
        best[:, :1] = torch.where(rows[:, None], forced_logp, best[:, :1])
        ids[:, 0] = torch.where(rows, token, ids[:, 0])
    return Candidates(best, ids)


def keep_listed(logits: Tensor, listed: Tensor) -> None:
    """Set all logits (N, V) to -inf, except for those of the listed tokens, (N, W), -1 = none."""
    listed = torch.where(listed < 0, listed[:, :1].clamp(min=0), listed)
    values = logits.gather(1, listed)
    logits.fill_(-torch.inf).scatter_(1, listed, values)


def with_required(logp: Tensor, best: Tensor, ids: Tensor, required: Tensor) -> Candidates:
    """Append required tokens (N, R) to candidates (N, C). Those that are already candidates get
    probability 0 in the appended columns, and so does -1.
    """
    again = (required[:, :, None] == ids[:, None]).any(2) | (required < 0)
    of_required = logp.gather(1, required.clamp(min=0)).masked_fill(again, -torch.inf)
    tokens = required.clamp(min=0)
    return Candidates(torch.cat((best, of_required), 1), torch.cat((ids, tokens), 1))


def top_of_rows(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """A faster `topk`, which may order equal values differently: (N, V) -> values and columns,
    (N, C) each.

    The C largest values of a row lie in the C chunks with the largest maxima, so only these are
    searched. A chunk takes every w-th column, so that the maxima of all chunks are found as fast as
    the row can be read.
    """
    V = x.shape[1]
    w = V // CHUNK
    if w < 4 * count:
        best, columns = x.topk(min(count, V))
        return best, columns
    maxima = x[:, : w * CHUNK].unflatten(1, (CHUNK, w)).amax(1)
    chunks = maxima.topk(count, sorted=False).indices  # (N, C)
    within = torch.arange(0, w * CHUNK, w, device=x.device)
    columns = (chunks[:, :, None] + within).flatten(1)  # (N, C * CHUNK)
    if w * CHUNK < V:
        rest = torch.arange(w * CHUNK, V, device=x.device).expand(len(x), -1)
        columns = torch.cat((columns, rest), dim=1)
    best, places = x.gather(1, columns).topk(count)
    return best, columns.gather(1, places)

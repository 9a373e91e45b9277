"""One pass along given translations, instead of a search for the best."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.windows import by_length, padded
from seq2seq.forcing.pairs import Pair
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, EOS, PAD

BATCH_PIECES = 4096  # padded pieces of the longer side that are read at once
ROWS = 256  # of the product with the vocabulary at once


class Score(NamedTuple):
    """How probable a model finds a given translation.

    Attributes:
        log_probability: natural, summed over all pieces, end included; None for a pair that cannot
            be scored.
        tokens: each target piece, and the end `</s>`, with its log-probability.
        reason: why the pair cannot be scored.
    """

    log_probability: float | None
    tokens: list[tuple[str, float]]
    reason: str | None = None

    @classmethod
    def of(cls, pieces: Sequence[str], log_probabilities: Sequence[float]) -> "Score":
        """The score of a translation from those of its pieces, of which there is one each."""
        total = math.fsum(log_probabilities)
        if not math.isfinite(total):
            return cls(None, [], "the model gives it no finite probability")
        return cls(total, list(zip(pieces, log_probabilities, strict=True)))


@torch.no_grad()
def log_probabilities(model: Seq2Seq, pairs: Sequence[Pair]) -> list[Tensor]:
    """The natural log-probability of each target piece, given the source and the pieces before it.

        log p(y_t | y_1 ... y_(t-1), x), t = 1 ... T + 1

    Returns: for each pair, in order, (T + 1,) on the CPU; the last one is that of the end.
    """
    results: dict[int, Tensor] = {}
    for batch in _batches(pairs):
        source, target = _tensors(model, [pairs[i] for i in batch])
        real = target[:, 1:] != PAD
        hidden, wanted = model(source, target[:, :-1]).hidden[real], target[:, 1:][real]
        chunks = zip(hidden.split(ROWS), wanted.split(ROWS), strict=True)
        found = torch.cat([_of_pieces(model, rows, right) for rows, right in chunks])
        lengths = [len(pairs[i].target_ids) + 1 for i in batch]
        results.update(zip(batch, found.cpu().split(lengths), strict=True))
    return [results[i] for i in range(len(pairs))]


@torch.no_grad()
def cross_weights(model: Seq2Seq, pairs: Sequence[Pair]) -> list[Tensor]:
    """Where the model looks in the source when it writes each target piece.

    Returns: for each pair, in order, (L, H, T + 1, S + 1) on the CPU for L layers of H heads, T
        target and S source pieces; the last row wrote the end, the last column is the source's end.
    """
    results: dict[int, Tensor] = {}
    for batch in _batches(pairs):
        source, target = _tensors(model, [pairs[i] for i in batch])
        weights = model(source, target[:, :-1], need_weights=True).weights.cpu()
        for row, i in enumerate(batch):
            height, width = len(pairs[i].target_ids) + 1, len(pairs[i].source_ids) + 1
            # A copy, so that the padded batch is not kept alive by a part of it.
            results[i] = weights[:, row, :, :height, :width].clone()
    return [results[i] for i in range(len(pairs))]


def _batches(pairs: Sequence[Pair]) -> list[list[int]]:
    longest = [max(len(pair.source_ids), len(pair.target_ids)) + 1 for pair in pairs]
    return list(by_length(longest, BATCH_PIECES))


def _of_pieces(model: Seq2Seq, hidden: Tensor, wanted: Tensor) -> Tensor:
    logits = model.logits(hidden)
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    return logp.gather(1, wanted[:, None]).squeeze(1)


def _tensors(model: Seq2Seq, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Padded ids: sources (B, S + 1) with their end, targets (B, T + 2) with begin and end."""
    device = next(model.parameters()).device
    source = padded([[*pair.source_ids, EOS] for pair in pairs])
    target = padded([[BOS, *pair.target_ids, EOS] for pair in pairs])
    return source.to(device), target.to(device)

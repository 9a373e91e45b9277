"""Score given translations in one pass, without a search; also their attention weights."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.base.text_stream import without_marks
from seq2seq.data.batches.padding import pad_rows
from seq2seq.data.text.lines import strip_line_end
from seq2seq.data.text.windows import batch_by_length, windows
from seq2seq.models import PassOptions, Seq2Seq
from seq2seq.text.tokenization.directions import PLAIN, Direction
from seq2seq.text.tokenization.tokenizer import Tokenizers

BATCH_PIECES = 4096  # padded pieces of the longer side in one batch
ROWS = 256  # positions in one product with the output matrix


class Pair(NamedTuple):
    """A source and its translation, as texts and as piece ids without bos and eos, but with the
    tags of the direction.

    `refusal` says why the model cannot read them; None if it can.
    """

    source: str
    target: str
    source_ids: list[int]
    target_ids: list[int]
    refusal: str | None


def read_pairs(
    texts: Iterable[tuple[str, str]],
    tokenizers: Tokenizers,
    limit: int,
    look_ahead: int,
    direction: Direction = PLAIN,
) -> Iterator[list[Pair]]:
    """Yield pairs of texts in windows of at most `look_ahead` pairs, reading them as needed.

    Args:
        direction: direction of translation, whose tags are put before the pieces.
        limit: maximum number of pieces on either side, including eos. Longer pairs, and pairs with
            an empty side, are marked as refused.
    """
    clean = ((clean_line(source), clean_line(target)) for source, target in texts)
    for window in windows(clean, look_ahead, lambda pair: len(pair[0]) + len(pair[1])):
        sources = tokenizers.source.encode_batch([source for source, _ in window])
        targets = tokenizers.target.encode_batch([target for _, target in window])
        sources = [[*direction.before, *row] for row in sources]
        targets = [[*direction.start, *row] for row in targets]
        yield [
            Pair(*pair, source, target, refusal(pair, (source, target), limit))
            for pair, source, target in zip(window, sources, targets, strict=True)
        ]


def refusal(texts: tuple[str, str], ids: tuple[list[int], list[int]], limit: int) -> str | None:
    for side, text, row in zip(("source", "target"), texts, ids, strict=True):
        if not text.strip():
            return f"the {side} is empty"
        if len(row) >= limit:
            return f"the {side} has {len(row) + 1} pieces; in training none had more than {limit}"
    return None


def clean_line(text: str) -> str:
    """Clean a text as in training: remove its line ending and byte order marks, and replace what
    UTF-8 cannot encode (invalid bytes from a command line) by U+FFFD.
    """
    whole = strip_line_end(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return without_marks(whole)


class TranslationScore(NamedTuple):
    """The probability that a model gives to a translation.

    Attributes:
        log_probability: sum of the natural log-probabilities of all pieces, including eos; None if
            the pair cannot be scored.
        tokens: target pieces, including the final `</s>`, with their log-probabilities.
        reason: reason why the pair cannot be scored, if so.
    """

    log_probability: float | None
    tokens: list[tuple[str, float]]
    reason: str | None = None

    @classmethod
    def of(cls, pieces: Sequence[str], log_probabilities: Sequence[float]) -> "TranslationScore":
        """The score of a translation from the log-probability of each of its pieces."""
        total = math.fsum(log_probabilities)
        if not math.isfinite(total):
            return cls(None, [], "the model gives it no finite probability")
        return cls(total, list(zip(pieces, log_probabilities, strict=True)))


@torch.no_grad()
def log_probabilities(model: Seq2Seq, pairs: Sequence[Pair]) -> list[Tensor]:
    """The natural log-probability of each target piece, given the source and the pieces before it.

        log p(y_t | y_1 ... y_(t-1), x), t = 1 ... T + 1

    Returns: a tensor (T + 1,) on the CPU for each pair, in order; its last value is for eos.
    """
    results: dict[int, Tensor] = {}
    for batch, source, target in batches(model, pairs):
        real = target[:, 1:] != PAD
        hidden, wanted = model(source, target[:, :-1]).hidden[real], target[:, 1:][real]
        chunks = zip(torch.split(hidden, ROWS), torch.split(wanted, ROWS), strict=True)
        logp = torch.cat([logp_of_pieces(model, rows, right) for rows, right in chunks])
        lengths = [len(pairs[i].target_ids) + 1 for i in batch]
        results.update(zip(batch, torch.split(logp.cpu(), lengths), strict=True))
    return [results[i] for i in range(len(pairs))]


@torch.no_grad()
def cross_weights(model: Seq2Seq, pairs: Sequence[Pair]) -> list[Tensor]:
    """The weights of cross-attention when the model writes each target piece.

    Returns: a tensor (L, H, T + 1, S + 1) on the CPU for each pair, in order, with L layers of H
        heads, T target and S source pieces. The last row wrote eos; the last column is the source's
        eos.
    """
    results: dict[int, Tensor] = {}
    for batch, source, target in batches(model, pairs):
        weights = model(source, target[:, :-1], PassOptions(need_weights=True)).weights.cpu()
        for row, i in enumerate(batch):
            height, width = len(pairs[i].target_ids) + 1, len(pairs[i].source_ids) + 1
            # A copy: a view would keep the padded batch alive.
            results[i] = weights[:, row, :, :height, :width].clone()
    return [results[i] for i in range(len(pairs))]


def batches(model: Seq2Seq, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield batches of pairs of similar lengths: the indices of the pairs, and their padded ids,
    sources (B, S + 1) with eos and targets (B, T + 2) with bos and eos.
    """
    device = next(model.parameters()).device
    longest = [max(len(pair.source_ids), len(pair.target_ids)) + 1 for pair in pairs]
    for batch in batch_by_length(longest, BATCH_PIECES):
        source = pad_rows([[*pairs[i].source_ids, EOS] for i in batch])
        target = pad_rows([[BOS, *pairs[i].target_ids, EOS] for i in batch])
        yield batch, source.to(device), target.to(device)


def logp_of_pieces(model: Seq2Seq, hidden: Tensor, wanted: Tensor) -> Tensor:
    logits = model.logits(hidden)
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    return logp.gather(1, wanted[:, None]).squeeze(1)

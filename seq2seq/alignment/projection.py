"""Project attention weights from pieces onto words, and links from words onto pieces."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.alignment.links import Links, Span, Word

# One sequence for the source and one for the target.
SpanLists = tuple[Sequence[Span], Sequence[Span]]
WordLists = tuple[Sequence[Word], Sequence[Word]]


def word_weights(weights: Tensor, spans: SpanLists, words: WordLists) -> Tensor:
    """Convert attention between pieces into attention between words.

    The weights on the pieces of a source word are summed, since attention is distributed over the
    source; the rows of a target word's pieces are averaged. In this way a row keeps its sum.

    Args:
        weights: (..., T + 1, S + 1) for T target and S source pieces: row t is where the model
            looked when it wrote piece t. The last row and column belong to the end symbols.
        spans: the S and the T pieces without the end symbols, as (start, end) in characters. A
            piece belongs to the words that it overlaps, in proportion to the characters in each. A
            piece between words (a separate space) belongs to the next word, or to the last.
        words: the words of both texts, from `words` or `spans_to_words`.

    Returns: (..., target words, source words + 1); the last column is for the source's end symbol.
        The row of the target's end symbol is dropped. The row of a word without pieces is zero.
    """
    weights = weights.float()
    source, target = (
        piece_shares(*side).to(weights.device) for side in zip(spans, words, strict=True)
    )
    average = (target / target.sum(0).clamp(min=1e-9)).T  # (target words, T)
    rows = average @ weights[..., :-1, :]  # (..., target words, S + 1)
    return torch.cat([rows[..., :-1] @ source, rows[..., -1:]], -1)


def project_links(links: Links, spans: SpanLists, words: WordLists, *, to_end: bool) -> Tensor:
    """Convert links between words into a distribution that the attention of each target piece
    should have.

    The weight of a target piece is divided evenly among the source words that its word is linked
    to, and the share of each source word evenly among its pieces. A piece of several words counts
    for each in proportion to the overlap. Possible links count only for target words without a
    sure link. A pair without links gives all zeros.

    Args:
        spans: the S and the T pieces of the two texts.
        words: the words of the two texts, which `links` refers to.
        to_end: True if a target word without links should attend to the source's EOS, which means
            that no source word corresponds to it. Otherwise its row is 0.

    Returns: (T, S + 1), the last column is for EOS. Each row sums to 1 or is all zeros.
    """
    source_words, target_words = words
    of_words = torch.zeros(len(target_words), len(source_words) + 1)
    certain = {j for _, j in links.sure}
    for i, j in links.sure | {link for link in links.possible if link[1] not in certain}:
        of_words[j, i] = 1
    if to_end and links.possible:
        of_words[of_words.sum(1) == 0, -1] = 1
    of_words /= of_words.sum(1, keepdim=True).clamp(min=1)
    among = piece_shares(spans[0], source_words)  # (S, source words)
    among /= among.sum(0).clamp(min=1e-9)
    rows = piece_shares(spans[1], target_words) @ of_words  # (T, source words + 1)
    shares = torch.cat([rows[:, :-1] @ among.T, rows[:, -1:]], 1)
    return shares / shares.sum(1, keepdim=True).clamp(min=1e-9)


def piece_shares(spans: Sequence[Span], words: Sequence[Word]) -> Tensor:
    """(pieces, words): the share of each piece in each word; a row sums to 1."""
    if not words:
        return torch.zeros(len(spans), 0)
    piece = torch.tensor(spans, dtype=torch.float32).view(-1, 1, 2)
    word = torch.tensor([each[1:] for each in words], dtype=torch.float32).view(1, -1, 2)
    last, first = torch.minimum(piece, word)[..., 1], torch.maximum(piece, word)[..., 0]
    overlap = (last - first).clamp(min=0)
    for lone in (overlap.sum(1) == 0).nonzero().flatten().tolist():
        following = (w for w, (_, start, _) in enumerate(words) if start >= spans[lone][1])
        overlap[lone, next(following, len(words) - 1)] = 1
    return overlap / overlap.sum(1, keepdim=True).clamp(min=1)

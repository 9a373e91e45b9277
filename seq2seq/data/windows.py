"""Streams of texts in windows that fit in memory, a window in batches, a long text in parts."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from seq2seq.symbols import PAD
from seq2seq.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

CHARACTERS = 2**20  # of a window, after which no more texts are read


def windows(
    texts: Iterable[T], max_texts: int, size_of: Callable[[T], int], limit: int = CHARACTERS
) -> Iterator[list[T]]:
    """Texts in order, `max_texts` at a time, or fewer that reach the size `limit` together."""
    window: list[T] = []
    size = 0
    for text in texts:
        window.append(text)
        size += size_of(text)
        if len(window) >= max_texts or size >= limit:
            yield window
            window, size = [], 0
    if window:
        yield window


def by_length(lengths: list[int], max_pieces: int) -> Iterator[list[int]]:
    """Indices in batches of similar lengths, longest first: at most `max_pieces` pieces, padding
    included, or one text.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_pieces:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def padded(rows: list[list[int]]) -> "Tensor":
    """Rows of ids as one tensor, padded at the right."""
    import torch  # takes seconds, in each process that encodes text and needs none of it

    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


# Where a sentence may end: a mark and white space, or a full-width mark, which needs none.
SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*\s+|[。！？]+[”’」』）]*\s*")


def split_into_parts(text: str, tokenizer: Tokenizer, max_pieces: int) -> list[str]:
    """A text in parts of at most `max_pieces` pieces, as long as possible; no character is lost.

    A part ends after the last sentence end in reach, else after the last space, else between two
    pieces. A character is never cut, even if it alone has more pieces.

    Raises: ValueError unless max_pieces >= 1.
    """
    if max_pieces < 1:
        raise ValueError(f"a part needs at least one piece, not {max_pieces}")
    ends = [end for _, end in tokenizer.spans(text)]
    parts, start, piece = [], 0, 0
    while len(ends) - piece > max_pieces:
        # A character whose last piece is out of reach (a Chinese one can need three) is out of
        # reach too, unless it is the only one.
        within = [end for end in ends[piece : piece + max_pieces] if end < ends[piece + max_pieces]]
        reach = text[start : within[-1] if within else ends[piece]]
        stops = [m.end() for m in SENTENCE_END.finditer(reach)] or [reach.rfind(" ") + 1]
        cut = start + (stops[-1] or len(reach))
        parts.append(text[start:cut])
        while piece < len(ends) and ends[piece] <= cut:
            piece += 1
        start = cut
    return [*parts, text[start:]] if start < len(text) or not parts else parts

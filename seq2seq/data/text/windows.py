"""Streams of texts in windows that fit in memory, and a window in batches."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

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


def batch_by_length(lengths: list[int], max_pieces: int) -> Iterator[list[int]]:
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

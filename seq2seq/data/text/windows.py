"""Divide streams of texts into windows that fit in memory, and windows into batches."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

CHARACTERS = 2**20  # size of a window at which it is full


def windows(
    texts: Iterable[T], max_texts: int, size_of: Callable[[T], int], limit: int = CHARACTERS
) -> Iterator[list[T]]:
    """Group texts in order: `max_texts` at a time, or fewer if they reach the size `limit`."""
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
    """Indices in batches of similar lengths, longest first, split by `split_by_padding`."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return split_by_padding(order, lengths.__getitem__, max_pieces)


def split_by_padding(
    items: Iterable[T], length_of: Callable[[T], int], max_pieces: int
) -> Iterator[list[T]]:
    """Split items in order into batches of one item or at most `max_pieces` padded pieces."""
    batch: list[T] = []
    longest = 0
    for item in items:
        longest = max(longest, length_of(item))
        if batch and (len(batch) + 1) * longest > max_pieces:
            yield batch
            batch, longest = [], length_of(item)
        batch.append(item)
    if batch:
        yield batch

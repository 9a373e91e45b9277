"""Any number of texts in windows that fit the memory, and the texts of a window in batches."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from seq2seq.symbols import PAD

T = TypeVar("T")

CHARACTERS = 2**20  # of a window, after which no more texts are read ahead


def windows(
    texts: Iterable[T], most: int, characters: Callable[[T], int], limit: int = CHARACTERS
) -> Iterator[list[T]]:
    """Texts in their order, `most` at a time, or fewer that have `limit` characters together."""
    window: list[T] = []
    size = 0
    for text in texts:
        window.append(text)
        size += characters(text)
        if len(window) >= most or size >= limit:
            yield window
            window, size = [], 0
    if window:
        yield window


def by_length(lengths: list[int], most: int) -> Iterator[list[int]]:
    """Indices in batches of like lengths, longest first: padded, none holds more than `most`
    pieces, or one text.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def padded(rows: list[list[int]]) -> Tensor:
    """Rows of ids as one tensor, filled up with pad at the right."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])

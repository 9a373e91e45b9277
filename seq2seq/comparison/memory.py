"""Measure the memory of decoding and training: bytes per token, and bytes against length."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS
from seq2seq.comparison.live_memory import live_memory
from seq2seq.data.batches.batch import pair_batch
from seq2seq.models import Seq2Seq
from seq2seq.training.loss import batch_loss

LENGTHS = (64, 128, 256, 512, 1024)  # tokens of either side
LONGEST = 1024  # tokens; more than any window, so that a ring buffer counts as a fixed size


class Remembered(NamedTuple):
    """The size of a cache: `each` bytes per token plus `fixed` bytes; exact for lengths beyond the
    window of a mechanism.
    """

    each: float
    fixed: float


def measure_memory(model: Seq2Seq, trained: int) -> tuple[Remembered, Remembered]:
    """The sizes of the caches of one hypothesis in all layers: for target tokens, and for source
    tokens.

    Args:
        trained: length of the longest training sentence in pieces, for models that accept no
            longer ones.
    """
    try:
        return growth(model, LONGEST)
    except ConfigError:  # too long for its positions or its attention
        return growth(model, trained)


def growth(model: Seq2Seq, longest: int) -> tuple[Remembered, Remembered]:
    lengths = longest // 2, longest
    target, source = zip(*(memory_bytes(model, length) for length in lengths), strict=True)
    return line(lengths, target), line(lengths, source)


@torch.no_grad()
def memory_bytes(model: Seq2Seq, length: int) -> tuple[int, int]:
    """The bytes remembered of the target and of the source after `length` tokens on either side."""
    device = next(model.parameters()).device
    source = torch.full((1, length), BOS, device=device)
    source[:, -1] = EOS
    state = model.start(model.encode(source))
    model.step(torch.full((1, length), BOS, device=device), state)
    return sum(each.nbytes for each in state.past), sum(each.nbytes for each in state.source)


def line(lengths: tuple[int, int], sizes: tuple[int, ...]) -> Remembered:
    each = (sizes[1] - sizes[0]) / (lengths[1] - lengths[0])
    return Remembered(each, sizes[1] - each * lengths[1])


def decoding_by_length(model: Seq2Seq) -> list[tuple[float, float]]:
    """Pairs (length, bytes): the memory of one hypothesis and its source while decoding, with that
    many tokens on either side; up to the maximum length of the model.
    """
    return by_length(lambda length: sum(memory_bytes(model, length)))


def training_by_length(model: Seq2Seq) -> list[tuple[float, float]]:
    """Pairs (length, bytes): the peak memory of tensors in a forward and backward pass over one
    pair with that many tokens on either side. It includes gradients, but not weights and the
    optimizer's state.
    """
    device = next(model.parameters()).device

    def peak(length: int) -> int:
        source = torch.full((1, length), BOS, device=device)
        target = torch.full((1, length + 1), BOS, device=device)
        source[:, -1] = target[:, -1] = EOS
        batch = pair_batch(source, target, length, [0])
        model.zero_grad(set_to_none=True)
        return live_memory(lambda: batch_loss(model, batch, 0.1).smoothed.backward(), device).peak

    model.train()
    points = by_length(peak)
    model.zero_grad(set_to_none=True)
    model.eval()
    return points


def by_length(measure: Callable[[int], int]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for length in LENGTHS:
        try:
            points.append((length, measure(length)))
        except ConfigError:  # too long for its positions or its attention
            break
    return points

"""Bytes cached in decoding: per token, and independent of the length."""

from typing import NamedTuple

import torch

from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.models.state import DecodeState
from seq2seq.symbols import BOS, EOS

LONGEST = 1024  # tokens; beyond any window, so that a ring buffer counts as a fixed size


class Remembered(NamedTuple):
    """`each` bytes per token, plus `fixed`: exact beyond the window of a mechanism."""

    each: float
    fixed: float


def measure_memory(model: Seq2Seq, trained: int) -> tuple[Remembered, Remembered]:
    """The cache of the target tokens of one hypothesis, and of its source, in all layers.

    Args:
        trained: pieces of the longest training sentence, for a model that takes no longer ones.
    """
    try:
        return growth(model, LONGEST)
    except ConfigError:  # of its positions or its attention
        return growth(model, trained)


@torch.no_grad()
def growth(model: Seq2Seq, longest: int) -> tuple[Remembered, Remembered]:
    lengths = longest // 2, longest
    states = [state_of(model, length) for length in lengths]
    sizes_of_past = [sum(memory.nbytes for memory in state.past) for state in states]
    sizes_of_source = [sum(memory.nbytes for memory in state.source) for state in states]
    return line(lengths, sizes_of_past), line(lengths, sizes_of_source)


def state_of(model: Seq2Seq, length: int) -> DecodeState:
    """The decode state after `length` tokens on either side."""
    device = next(model.parameters()).device
    source = torch.full((1, length), BOS, device=device)
    source[:, -1] = EOS
    state = model.start(model.encode(source))
    model.step(torch.full((1, length), BOS, device=device), state)
    return state


def line(lengths: tuple[int, int], sizes: list[int]) -> Remembered:
    each = (sizes[1] - sizes[0]) / (lengths[1] - lengths[0])
    return Remembered(each, sizes[1] - each * lengths[1])

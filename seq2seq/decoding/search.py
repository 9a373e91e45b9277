"""What every search is: bookkeeping over candidates. A search never calls the model; the loop in
`engine` does.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.decoding.hypothesis import Hypothesis


class Advance(NamedTuple):
    """What a search decides in one step, for N = B * K rows."""

    parents: Tensor | None  # (N,) the row each row goes on from; None = itself
    tokens: Tensor  # (N,) the next token of each row
    done: Tensor  # (B,) bool: nothing more is wanted of this sentence


class Search:
    """Hypotheses of B sentences, K lanes each.

    The limit of a hypothesis depends on its own source only, so a translation does not change with
    its batch.

    Args:
        length_ratio, length_extra: a translation has at most length_ratio * S + length_extra
            tokens, eos included, for a source of S pieces.

    Attributes:
        beams: K.
        candidates: how many of the best next tokens of each row `advance` wants to see, C.
    """

    def __init__(self, *, beams: int, candidates: int, length_ratio: float, length_extra: int):
        self.beams = beams
        self.candidates = candidates
        self.length_ratio = length_ratio
        self.length_extra = length_extra

    def start(self, source_lengths: Tensor, longest: int | None = None) -> None:
        """Begin with B sentences of so many pieces (B,), eos not counted.

        `longest` is the most that the model can write, eos included; None = any number.
        """
        limits = self.length_ratio * source_lengths.double() + self.length_extra
        self.limits = limits.long().clamp(min=1, max=longest)
        self.sentences = torch.arange(len(source_lengths), device=source_lengths.device)
        self.finished: list[list[Hypothesis]] = [[] for _ in range(len(source_lengths))]
        self.length = 0  # tokens chosen so far in every live lane

    def advance(self, logp: Tensor, ids: Tensor) -> Advance:
        """Choose the next tokens: log-probabilities (N, C) of candidate ids (N, C), best first."""
        raise NotImplementedError

    def keep(self, sentences: Tensor) -> None:
        """Drop all other sentences, whose results stay; (B',), ascending."""
        self.limits = self.limits[sentences]
        self.sentences = self.sentences[sentences]

    def results(self) -> list[list[Hypothesis]]:
        """For each sentence of `start`, in that order, its hypotheses, best first."""
        return [sorted(found, key=lambda h: -h.score) for found in self.finished]

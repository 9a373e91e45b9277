"""All that must be remembered between two decoding steps."""

import torch
from torch import Tensor

from seq2seq.attention import Memory


class DecodeState:
    """B sentences of K hypotheses each: N = B * K rows, row b * K + k, all at the same length.

    Two verbs change which hypotheses there are. Searches know them; models know `begin` and `end`.

    Attributes:
        source: per layer, B rows: the source, stored once a sentence whatever K is; beams are
            queries.
        past: per layer, N rows: what the decoder remembers of each hypothesis.
        beams: K.
        length: tokens remembered in every row.
    """

    def __init__(self, source: list[Memory], past: list[Memory], beams: int, device: torch.device):
        self.source = source
        self.past = past
        self.beams = beams
        self.length = 0
        self.device = device

    def begin(self, n: int) -> Tensor:
        """Once a step, before the layers: the positions (n,) of the next n tokens."""
        return torch.arange(self.length, self.length + n, device=self.device)

    def end(self, n: int) -> None:
        """Once a step, after the layers."""
        self.length += n

    def fork(self, parents: Tensor) -> None:
        """Row r goes on from the hypothesis of row parents[r], (N,), of the same sentence."""
        for memory in self.past:
            memory.fork(parents)

    def keep(self, sentences: Tensor) -> None:
        """Drop all other sentences; (B',), ascending."""
        lanes = torch.arange(self.beams, device=sentences.device)
        rows = (sentences[:, None] * self.beams + lanes).flatten()
        for memory in self.source:
            memory.keep(sentences)
        for memory in self.past:
            memory.keep(rows)

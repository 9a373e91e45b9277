"""All that must be remembered between two decoding steps."""

import torch
from torch import Tensor

from seq2seq.attention import Memory


class DecodeState:
    """B sentences of K hypotheses each: N = B * K rows, row b * K + k. The rows of a sentence have
    one length; sentences that `merge` brings together may differ.

    Three verbs change which hypotheses there are. Searches know them; models know `begin` and
    `end`.

    Attributes:
        source: per layer, B rows: the source, stored once a sentence whatever K is; beams are
            queries.
        past: per layer, N rows: what the decoder remembers of each hypothesis.
        beams: K.
        lengths: of each sentence, the tokens remembered in each of its rows.
    """

    def __init__(self, source: list[Memory], past: list[Memory], beams: int, device: torch.device):
        self.source = source
        self.past = past
        self.beams = beams
        self.lengths = [0] * source[0].rows
        self.device = device

    @property
    def length(self) -> int:
        """Tokens remembered in the longest row."""
        return max(self.lengths, default=0)

    def begin(self, n: int) -> Tensor:
        """Once a step, before the layers: the positions of the next n tokens, (n,), or (N, n) where
        sentences have different lengths.
        """
        new = torch.arange(n, device=self.device)
        if len(set(self.lengths)) <= 1:
            return self.length + new
        starts = torch.tensor(self.lengths, device=self.device).repeat_interleave(self.beams)
        return starts[:, None] + new

    def end(self, n: int) -> None:
        """Once a step, after the layers."""
        self.lengths = [length + n for length in self.lengths]

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
        self.lengths = [self.lengths[sentence] for sentence in sentences.tolist()]

    def merge(self, other: "DecodeState") -> None:
        """Take over the sentences of another state of the same model, behind these. It is used up.

        Raises: ValueError for another number of beams, and where a memory holds rows of one length.
        """
        if other.beams != self.beams:
            raise ValueError(
                f"a state of {other.beams} beams cannot join one of {self.beams}: start both with "
                "the same `beams`"
            )
        B, more = len(self.lengths), len(other.lengths)
        for mine, joining in zip(self.source, other.source, strict=True):
            mine.merge(joining, B, more)
        for mine, joining in zip(self.past, other.past, strict=True):
            mine.merge(joining, B * self.beams, more * self.beams)
        self.lengths += other.lengths

"""Greedy search: the best next token, again and again."""

import torch
from torch import Tensor

from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.search import Advance, Search
from seq2seq.symbols import EOS


class Greedy(Search):
    """One lane a sentence, one candidate a step. The score is the log-probability divided by the
    length.

    Args:
        length_ratio, length_extra: see `Search`.
    """

    def __init__(self, *, length_ratio: float = 1.5, length_extra: int = 10):
        super().__init__(
            beams=1, candidates=1, length_ratio=length_ratio, length_extra=length_extra
        )

    def start(self, source_lengths: Tensor, longest: int | None = None) -> None:
        super().start(source_lengths, longest)
        self.tokens = source_lengths.new_empty(len(source_lengths), 0)  # (B, length)
        self.total = torch.zeros(len(source_lengths), device=source_lengths.device)

    def advance(self, logp: Tensor, ids: Tensor) -> Advance:
        token = ids[:, 0]
        self.total = self.total + logp[:, 0]
        self.tokens = torch.cat((self.tokens, ids), dim=1)
        self.length += 1
        ended = token == EOS
        done = ended | (self.length >= self.limits)
        for row in done.nonzero().flatten().tolist():
            complete = bool(ended[row])
            tokens = self.tokens[row].tolist()
            total = self.total[row].item()
            self.finished[int(self.sentences[row])].append(
                Hypothesis(
                    tokens[:-1] if complete else tokens, total / self.length, total, not complete
                )
            )
        return Advance(None, token, done)

    def keep(self, sentences: Tensor) -> None:
        super().keep(sentences)
        self.tokens = self.tokens[sentences]
        self.total = self.total[sentences]

"""Beam search: the K best prefixes of each sentence, one token longer at every step."""

import torch
from torch import Tensor

from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.search import Advance, Search
from seq2seq.symbols import EOS


class Beam(Search):
    """K lanes a sentence, and 2K candidates a step, so that K go on even if K of them end.

    1. At first only lane 0 lives. A candidate's value is its lane's log-probability plus its own;
       the 2K best of the sentence are looked at.
    2. An eos among the first K is a finished hypothesis, scored by
       log-probability / n^length_penalty, where n counts its tokens, eos included.
    3. The K best others go on.
    4. A sentence is done when K hypotheses are finished, or at its length limit: what lives then
       is finished as truncated.
    5. The best score wins; of equals, the one that finished first, then the one of better rank.

    Args:
        beam_size: K.
        length_penalty: exponent; 0 favours short translations, 1 compares log-probabilities per
            token.
        length_ratio, length_extra: see `Search`.
    """

    def __init__(
        self,
        *,
        beam_size: int = 5,
        length_penalty: float = 1.0,
        length_ratio: float = 1.5,
        length_extra: int = 10,
    ):
        super().__init__(
            beams=beam_size,
            candidates=2 * beam_size,
            length_ratio=length_ratio,
            length_extra=length_extra,
        )
        self.length_penalty = length_penalty

    def start(self, source_lengths: Tensor, longest: int | None = None) -> None:
        super().start(source_lengths, longest)
        B, K = len(source_lengths), self.beams
        self.tokens = source_lengths.new_empty(B, K, 0)  # (B, K, length)
        self.total = torch.full((B, K), -torch.inf, device=source_lengths.device)
        self.total[:, 0] = 0.0

    def advance(self, logp: Tensor, ids: Tensor) -> Advance:
        B, K = self.total.shape
        self.length += 1
        # -> (B, K * C): every continuation of every lane; then (B, 2K): the best of the sentence
        values = (self.total[:, :, None] + logp.view(B, K, -1)).flatten(1)
        values, index = values.topk(min(2 * K, values.shape[1]))
        lane = index // logp.shape[1]
        token = ids.view(B, -1).gather(1, index)
        ended = token == EOS
        self._finish(values[:, :K], lane[:, :K], ended[:, :K])

        # -> (B, K): ranks of the best that go on; a stable sort puts them first, in order
        going = ended.to(torch.uint8).argsort(dim=1, stable=True)[:, :K]
        lane, token = lane.gather(1, going), token.gather(1, going)
        self.total = values.gather(1, going)
        self.tokens = self.tokens.gather(1, lane[:, :, None].expand(-1, -1, self.length - 1))
        self.tokens = torch.cat((self.tokens, token[:, :, None]), dim=2)
        parents = (lane + K * torch.arange(B, device=lane.device)[:, None]).flatten()
        return Advance(parents, token.flatten(), self._done())

    def _finish(self, values: Tensor, lane: Tensor, ended: Tensor) -> None:
        """Record the candidates (B, K) that end here: the prefix of their lane, without eos."""
        for row, rank in (ended & values.isfinite()).nonzero().tolist():
            prefix = self.tokens[row, lane[row, rank]].tolist()
            self._record(row, prefix, values[row, rank].item(), truncated=False)

    def _done(self) -> Tensor:
        """(B,): enough is finished, or the limit is reached, where all live lanes become
        hypotheses.
        """
        counts = [len(self.finished[sentence]) for sentence in self.sentences.tolist()]
        enough = torch.tensor(counts, device=self.limits.device) >= self.beams
        at_limit = ~enough & (self.length >= self.limits)
        for row in at_limit.nonzero().flatten().tolist():
            for tokens, total in zip(
                self.tokens[row].tolist(), self.total[row].tolist(), strict=True
            ):
                if total != -torch.inf:  # a dead lane; NaN, of a model that diverged, is a result
                    self._record(row, tokens, total, truncated=True)
        return enough | at_limit

    def _record(self, row: int, ids: list[int], total: float, truncated: bool) -> None:
        score = total / self.length**self.length_penalty
        hypothesis = Hypothesis(ids, score, total, truncated)
        self.finished[int(self.sentences[row])].append(hypothesis)

    def keep(self, sentences: Tensor) -> None:
        super().keep(sentences)
        self.tokens = self.tokens[sentences]
        self.total = self.total[sentences]

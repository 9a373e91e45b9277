"""A model that is a table of log-probabilities, exhaustive search on it, and random sentences."""

import math
from collections.abc import Callable, Iterable, Sequence

import pytest
import torch
from torch import Tensor

from helpers.builders import source_batch
from seq2seq.attention import Memory, StateMemory
from seq2seq.attention.page_pool import PagePool
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.decoding import Hypothesis, SentenceRequest
from seq2seq.models import Decoded, DecodeState, Encoded, Seq2Seq

NextLogP = Callable[[list[int]], list[float]]  # prefix, without bos -> log-probability of each id
LENGTHS = (6, 1, 4, 9, 3, 5, 2, 6, 18, 3, 4, 8)  # of some sentences, eos included
PRIME = 997  # rows of the table; two prefixes of few tokens seldom share one


class TableModel(Seq2Seq):
    """Log-probabilities that depend on the first source id and on the whole prefix: random scores.

    Args:
        vocabulary: V, the four symbols included.
        seed: of the table.
        spread: standard deviation of the scores; eos gets `eos` more.
    """

    def __init__(self, vocabulary: int, seed: int = 0, spread: float = 2.0, eos: float = 0.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = spread * torch.randn(PRIME, vocabulary, generator=generator).double()
        self.table[:, EOS] += eos
        self.vocabulary = vocabulary

    def encode(self, source: Tensor) -> Encoded:
        return Encoded(source[:, :1, None].double(), source != PAD)

    def start(self, encoded: Encoded, beams: int = 1, pages: PagePool | None = None) -> DecodeState:
        first = encoded.states[:, 0].long()
        sources: list[Memory] = [StateMemory(first=first)]
        prefix = StateMemory(row=torch.zeros(len(first) * beams, 1, dtype=torch.int64))
        return DecodeState(sources, [prefix], beams, first.device, pages)

    def step(self, tokens: Tensor, state: DecodeState, need_weights: bool = False) -> Decoded:
        past, source = state.past[0], state.source[0]
        assert isinstance(past, StateMemory) and isinstance(source, StateMemory)
        first = source.state["first"].repeat_interleave(state.beams, dim=0)
        row = (past.state["row"] * 31 + tokens + 7 * first) % PRIME
        past.state = {"row": row}
        state.lengths = [length + 1 for length in state.lengths]
        return Decoded(self.table[row], None)

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden.clone()

    def next_logp(self, first: int) -> NextLogP:
        """The same log-probabilities as a function of the whole prefix, for a sentence that begins
        with the id `first`.
        """

        def logp(prefix: list[int]) -> list[float]:
            row = 0
            for token in (BOS, *prefix):
                row = (row * 31 + token + 7 * first) % PRIME
            return self.table[row].log_softmax(-1).tolist()

        return logp


def next_logp(model: Seq2Seq, source: Tensor) -> NextLogP:
    """Log-probabilities of any model for one sentence (S,) alone: teacher forcing of the prefix."""

    @torch.no_grad()
    def logp(prefix: list[int]) -> list[float]:
        target = torch.tensor([[BOS, *prefix]])
        return model.logits(model(source[None], target).hidden[0, -1]).log_softmax(-1).tolist()

    return logp


def every_hypothesis(logp: NextLogP, vocabulary: int, limit: int) -> list[Hypothesis]:
    """All hypotheses of at most `limit` tokens, eos included, scored by log-probability alone."""
    finished = []
    open_ones = [Hypothesis([], 0.0, 0.0, True)]
    for _ in range(limit):
        grown = []
        for beam in open_ones:
            values = logp(beam.ids)
            for token in set(range(vocabulary)) - {PAD, BOS, UNK}:
                ids = beam.ids if token == EOS else [*beam.ids, token]
                each = [*beam.token_logp, values[token]]
                one = Hypothesis(ids, sum(each), sum(each), token != EOS, each)
                (finished if token == EOS else grown).append(one)
        open_ones = grown
    return sorted([*finished, *open_ones], key=lambda h: -h.score)


def make_requests(lengths: Iterable[int] = LENGTHS) -> list[SentenceRequest]:
    """Random sentences of these lengths, eos included."""
    return [SentenceRequest(source_batch(length)[0].tolist()) for length in lengths]


def assert_same(actual: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """The same translations in the same order, with the same scores up to rounding."""
    assert [(h.ids, h.truncated) for h in actual] == [(h.ids, h.truncated) for h in expected]
    for one, other in zip(actual, expected, strict=True):
        assert math.isclose(one.score, other.score, abs_tol=1e-9)
        assert math.isclose(one.log_probability, other.log_probability, abs_tol=1e-9)
        assert one.token_logp == pytest.approx(other.token_logp, abs=1e-9)

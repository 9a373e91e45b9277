"""Guides: automata over tokens that define what a hypothesis may, must and must not contain.

A search asks which tokens a guide bans, allows and requires after those chosen so far. The search
knows nothing about words, and the code that computes probabilities knows nothing about guides.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.base.symbols import EOS


class NextTokens(NamedTuple):
    """The tokens that may follow in one state of a guide."""

    banned: Tensor  # (M,) must not follow; includes eos unless the hypothesis may end
    allowed: Tensor | None = None  # (M,) only these may follow; None = all that are not banned
    required: Sequence[int] = ()  # always candidates, since they advance the requirements


class Guide(Protocol):
    """An automaton whose states are integers, 0 before the first token."""

    requires: bool  # True if it may ban eos because required text is missing

    def next_state(self, state: int, token: int) -> int:
        """The state after one more token, which is not eos. A banned token changes nothing."""

    def next_tokens(self, state: int) -> NextTokens:
        """The tokens that may follow."""

    def pieces(self) -> Iterable[int]:
        """The tokens that may be needed to satisfy it, to be added to a shortlist."""

    def is_satisfied(self, state: int) -> bool:
        """True if anything may follow from now on."""

    def progress(self, state: int) -> int:
        """The amount of required text that is present. Hypotheses of equal progress compete."""


class RowTokens(NamedTuple):
    """`NextTokens` of N rows, as in `CandidateRequest`; None = no restriction."""

    banned: Tensor | None = None  # (M, 2) pairs of a row and a token
    allowed: Tensor | None = None  # (M, 2)
    required: Tensor | None = None  # (N, R), -1 = none


class Guides:
    """The guides of sentences, and the states of the K hypotheses of each.

    Attributes:
        sentences: number of sentences, with or without guides, B.
        guided: guide and states of each sentence that has a guide, by its index.
    """

    def __init__(self, guides: Sequence[Guide | None], beams: int):
        self.sentences, self.beams = len(guides), beams
        self.guided = {
            i: (guide, [0] * beams) for i, guide in enumerate(guides) if guide is not None
        }

    def next_tokens(self) -> RowTokens:
        """The tokens that may follow in each of the N = B * K rows. Needs at least one guide."""
        K = self.beams
        rows = {
            row: guide.next_tokens(state)
            for sentence, (guide, states) in self.guided.items()
            for row, state in enumerate(states, start=sentence * K)
        }
        allowed = {i: each.allowed for i, each in rows.items() if each.allowed is not None}
        required = {i: each.required for i, each in rows.items() if each.required}
        padded = np.full((self.sentences * K, max(map(len, required.values()), default=0)), -1)
        for row, tokens in required.items():
            padded[row, : len(tokens)] = tokens
        return RowTokens(
            pair_rows({i: each.banned for i, each in rows.items()}),
            pair_rows(allowed) if allowed else None,
            torch.from_numpy(padded) if required else None,
        )

    def find_required_rows(self) -> NDArray[Any]:
        """The rows of sentences in which something is required."""
        sentences = [i for i, (guide, _) in self.guided.items() if guide.requires]
        rows: NDArray[Any] = np.array(sentences, dtype=np.int64)[:, None] * self.beams
        return (rows + np.arange(self.beams)).ravel()

    def progress(self, ids: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
        """The progress of each hypothesis after each of its candidates, (B, K, C).

        Args:
            ids: ids of the candidates, (B, K, C).
            mask: candidates to compute, bool, (B, K, C); for others the result is 0.
        """
        progress = np.zeros_like(ids)
        for i, (guide, states) in self.guided.items():
            if not guide.requires:
                continue
            for k, state in enumerate(states):
                places = mask[i, k].nonzero()[0]
                after = [next_state(guide, state, token) for token in ids[i, k, places].tolist()]
                progress[i, k, places] = [*map(guide.progress, after)]
        return progress

    def advance(self, beams: NDArray[Any] | None, tokens: NDArray[Any]) -> None:
        """Advance each hypothesis. Guides that are satisfied in all hypotheses are dropped.

        Args:
            beams: beam that each hypothesis continues, (B, K); None = itself.
            tokens: token that is added, (B, K).
        """
        for i, (guide, states) in list(self.guided.items()):
            before = states if beams is None else [states[k] for k in beams[i].tolist()]
            pairs = zip(before, tokens[i].tolist(), strict=True)
            after = [next_state(guide, state, token) for state, token in pairs]
            if all(map(guide.is_satisfied, after)):
                del self.guided[i]
            else:
                self.guided[i] = guide, after

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these sentences."""
        kept = enumerate(sentences)
        self.guided = {i: self.guided[old] for i, old in kept if old in self.guided}
        self.sentences = len(sentences)

    def merge(self, other: Self) -> None:
        """Append the sentences of another object."""
        self.guided |= {self.sentences + i: each for i, each in other.guided.items()}
        self.sentences += other.sentences


def next_state(guide: Guide, state: int, token: int) -> int:
    """The state after a token; eos changes nothing."""
    return state if token == EOS else guide.next_state(state, token)


def pair_rows(tokens: Mapping[int, Tensor]) -> Tensor:
    """Pairs of a row and one of its tokens, (M, 2)."""
    rows = np.repeat([*tokens], [len(each) for each in tokens.values()])
    ids = np.concatenate([each.numpy() for each in tokens.values()])
    return torch.from_numpy(np.stack((rows, ids), 1))

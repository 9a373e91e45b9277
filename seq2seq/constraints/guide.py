"""What single hypotheses may, must and must not contain, told to a search as tokens.

A guide is an automaton over tokens, one for a sentence. A search asks which tokens it forbids and
wants after those chosen so far. It needs to know nothing of words, and whoever computes
probabilities needs to know nothing of guides.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.symbols import EOS


class Guide(Protocol):
    """An automaton whose states are integers, 0 before the first token."""

    requires: bool  # does it ever forbid eos because something is missing?

    def after(self, state: int, token: int) -> int:
        """The state after one more token, not eos; the same state for one that is forbidden."""

    def forbidden(self, state: int) -> Tensor:
        """Tokens (M,) that may not follow; eos too, unless the hypothesis may end."""

    def next_tokens(self, state: int) -> Tensor | None:
        """The only tokens (M,) that may follow; None = all that are not forbidden."""

    def useful_tokens(self, state: int) -> Sequence[int]:
        """Tokens that should be candidates, since they come closer to what is required."""

    def progress(self, state: int) -> int:
        """How much is there of what is required. Hypotheses of equal progress compete."""


class Guides:
    """The guides of B sentences, None for those without, and the states of K hypotheses of each."""

    def __init__(self, guides: Sequence[Guide | None], beams: int):
        self.guides = list(guides)
        self.states = [[0] * beams for _ in guides]

    def __bool__(self) -> bool:
        return any(guide is not None for guide in self.guides)

    def requires(self, sentence: int) -> bool:
        """Must the hypotheses of a sentence contain something?"""
        guide = self.guides[sentence]
        return guide is not None and guide.requires

    def _guided(self) -> Iterator[tuple[int, Guide, list[int]]]:
        """Each guided sentence, its guide, and the states of its hypotheses."""
        each = enumerate(zip(self.guides, self.states, strict=True))
        return ((i, guide, states) for i, (guide, states) in each if guide is not None)

    def pairs(self, device: torch.device) -> dict[str, Tensor | None]:
        """What the guides say of the N rows, named as in `CandidateRequest`."""
        K = len(self.states[0])
        banned: list[Tensor] = []
        allowed: list[Tensor] = []
        wanted: list[Sequence[int]] = [()] * (len(self.guides) * K)
        for sentence, guide, states in self._guided():
            for row, state in enumerate(states, start=sentence * K):
                banned.append(with_row(row, guide.forbidden(state)))
                if (only := guide.next_tokens(state)) is not None:
                    allowed.append(with_row(row, only))
                wanted[row] = guide.useful_tokens(state)
        width = max(map(len, wanted))
        padded = [[*tokens, *[-1] * (width - len(tokens))] for tokens in wanted]
        return {
            "banned": torch.cat(banned).to(device),
            "allowed": torch.cat(allowed).to(device) if allowed else None,
            "required": torch.tensor(padded, device=device) if width else None,
        }

    def progress(self, ids: NDArray[Any], possible: NDArray[Any]) -> NDArray[Any]:
        """The progress of each hypothesis after each of its candidates, (B, K, C).

        Args:
            ids: of the candidates, (B, K, C).
            possible: bool, (B, K, C); for the others the result is 0.
        """
        progress = np.zeros_like(ids)
        for sentence, guide, states in self._guided():
            if not guide.requires:
                continue
            tokens, mask = ids[sentence].tolist(), possible[sentence].tolist()
            progress[sentence] = [
                [
                    guide.progress(state if token == EOS else guide.after(state, token))
                    if is_possible
                    else 0
                    for token, is_possible in zip(of_beam, of_mask, strict=True)
                ]
                for state, of_beam, of_mask in zip(states, tokens, mask, strict=True)
            ]
        return progress

    def go_on(self, beams: NDArray[Any] | None, tokens: NDArray[Any]) -> None:
        """Each hypothesis continues that of a beam, (B, K), None = itself, with a token, (B, K)."""
        for sentence, guide, states in self._guided():
            before = states if beams is None else [states[k] for k in beams[sentence].tolist()]
            self.states[sentence] = [
                state if token == EOS else guide.after(state, token)
                for state, token in zip(before, tokens[sentence].tolist(), strict=True)
            ]

    def keep(self, sentences: Sequence[int]) -> None:
        """Drop all other sentences."""
        self.guides = [self.guides[i] for i in sentences]
        self.states = [self.states[i] for i in sentences]

    def merge(self, other: Self) -> None:
        """Append the other's sentences to these."""
        self.guides += other.guides
        self.states += other.states


def with_row(row: int, tokens: Tensor) -> Tensor:
    """Pairs of a row and each token (M,), (M, 2)."""
    return torch.stack((torch.full_like(tokens, row), tokens), dim=1)


def in_turns(values: Tensor, progress: Tensor) -> Tensor:
    """The order of continuations in which those of each progress take turns: the best of each
    progress, most progress first, then the second best of each, and so on.

    This is dynamic beam allocation (Post and Vilar 2018, arXiv:1804.06609): a beam holds as many
    hypotheses of each progress as there are, in equal shares. Where all have the same progress, it
    is the order of their values.

    Args:
        values: log-probabilities, (B, M).
        progress: (B, M).

    Returns: indices (B, M).
    """
    order = values.argsort(dim=1, descending=True, stable=True)
    p = progress.gather(1, order)
    p = torch.where(values.gather(1, order) == -torch.inf, -1, p)  # impossible ones come last
    by_progress = p.argsort(dim=1, stable=True)
    sorted_p = p.gather(1, by_progress)
    place = torch.arange(p.shape[1], device=p.device).expand_as(p)
    first = place.where(sorted_p != sorted_p.roll(1, 1), 0).cummax(1).values
    turn = torch.empty_like(p).scatter_(1, by_progress, place - first)
    turn = torch.where(p < 0, values.shape[1], turn)
    key = turn * (int(p.max()) + 2) - p
    return order.gather(1, key.argsort(dim=1, stable=True))

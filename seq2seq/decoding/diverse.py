"""Diverse beam search: groups of beams, where later groups avoid the tokens of earlier ones."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.decoding.beam import Beam, BeamState, Continuations, best_open, select_continuations
from seq2seq.decoding.options import DiverseOptions
from seq2seq.decoding.search import (
    FREE,
    Array,
    Hypothesis,
    SentenceOptions,
    StepChoice,
    rank_hypotheses,
)


class DiverseState(BeamState):
    """Beams in groups, advanced as `DiverseBeam` describes.

    Inherited methods treat each group as a sentence with a beam search of its own: the G groups of
    sentence b are sentences b * G to b * G + G - 1, so their beams are the rows of sentence b.

    Attributes:
        diversity_penalty: penalty of each group, (B * G,).
    """

    search: "GroupBeam"

    def __init__(
        self, source_lengths: Tensor, sentences: Sequence[SentenceOptions], max_length: int | None
    ):
        groups: list[SentenceOptions] = []
        for each in sentences:
            assert isinstance(each.search, DiverseBeam)
            groups += [each._replace(search=each.search.group)] * each.search.groups
        source_lengths = source_lengths.repeat_interleave(len(groups) // len(sentences))
        super().__init__(source_lengths, groups, max_length)
        self.diversity_penalty = self.option_values("diversity_penalty")

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        choice = super().advance(logp, ids, weights)
        # A group that is done finds no more hypotheses while others continue.
        self.total[choice.done] = -np.inf
        done = np.logical_and.reduce(choice.done.reshape(-1, self.search.groups), axis=1)
        return choice._replace(done=done)

    def _select(self, gains: Array, ids: Array) -> Continuations[Array]:
        G, K = self.search.groups, self.search.beams
        earlier = ids[::G, 0, :0]  # the tokens of the beams of earlier groups
        by_group = []
        for g in range(G):
            of_group = slice(g, None, G)
            guides = copy(self.guides)
            guides.keep(range(g, len(ids), G))
            penalty = self.diversity_penalty[of_group, None, None]
            among = count_among(torch.tensor(ids[of_group]), torch.tensor(earlier))
            selected = select_continuations(
                self.total[of_group],
                gains[of_group],
                ids[of_group],
                self.greedy[of_group],
                guides,
                -penalty * among.numpy(),
            )
            best = best_open(selected, K)
            tokens = np.where(best.values == -np.inf, FREE, best.tokens)
            earlier = np.concatenate((earlier, tokens), axis=1)
            by_group.append(selected)
        groups = (np.stack(x, 1) for x in zip(*by_group, strict=True))
        return Continuations(*(x.reshape(-1, x.shape[2]) for x in groups))

    def keep(self, sentences: Tensor) -> None:
        groups = torch.arange(self.search.groups, device=sentences.device)
        super().keep((sentences[:, None] * len(groups) + groups).flatten())

    def results(self, sentences: Iterable[int]) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence from all of its groups, best first, without
        duplicates; see `SearchState`.
        """
        G = self.search.groups
        results = []
        for first in (i * G for i in sentences):
            finished = [h for group in self.finished[first : first + G] for h in group]
            best: dict[tuple[int, ...], Hypothesis] = {}
            for hypothesis in rank_hypotheses(finished, self.searches[first].max_length):
                best.setdefault(tuple(hypothesis.ids), hypothesis)
            results.append([*best.values()])
        return results


def count_among(tokens: Tensor, others: Tensor) -> Tensor:
    """Count each token (B, ...) among the others (B, M) of its sentence. Returns: (B, ...)."""
    order, flat = others.sort(dim=1).values, tokens.flatten(1).contiguous()
    counts = torch.searchsorted(order, flat, right=True) - torch.searchsorted(order, flat)
    return counts.view_as(tokens)


@dataclass(frozen=True, kw_only=True)
class GroupBeam(DiverseOptions, Beam):
    """The search of one group: `beam_size` is the size of the group."""

    of_sentence = (*Beam.of_sentence, "diversity_penalty")

    @property
    def groups(self) -> int:
        """The number of groups, G."""
        return self.beam_groups or self.beam_size

    @property
    def candidates(self) -> int:
        # The penalty may demote as many of a beam's tokens as earlier groups have beams.
        return (self.groups + 1) * self.beam_size


@dataclass(frozen=True, kw_only=True)
class DiverseBeam(GroupBeam):
    """G groups of K / G beams, where later groups avoid the tokens of earlier ones (Vijayakumar et
    al. 2016, arXiv:1610.02424, with their Hamming diversity).

    1. At each step the groups choose one after the other. To choose, a group subtracts
       `diversity_penalty` from the log-probability of a token for each beam of an earlier group
       that continues with this token in this step. An eos is never penalised, since no beam
       continues with it.
    2. Otherwise each group is a `Beam` of K / G, which ends on its own and has its own place for
       the output of greedy search, chosen with the penalties too. Scores contain no penalties.
    3. A sentence is done when all its groups are done. A group that is done chooses no more tokens.
       The finished hypotheses of all groups are ranked together, without duplicates.

    K is `beam_size` and G `beam_groups`, a divisor of K. A group is done when patience * K / G
    hypotheses are finished. With one group this is `Beam`; with a penalty of 0 all groups find the
    same hypotheses.

    Raises: ConfigError for a value out of range, or if groups would have different sizes.
    """

    search_state = DiverseState

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam_size % self.groups:
            sizes = [n for n in range(1, self.beam_size + 1) if self.beam_size % n == 0]
            raise ConfigError(
                f"beam_groups={self.beam_groups} should divide the {self.beam_size} beams "
                f"into groups of equal size: {', '.join(map(str, sizes))}, or choose another "
                "beam_size"
            )

    @property
    def group(self) -> GroupBeam:
        """The search of each group."""
        options: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        size = self.beam_size // self.groups
        return GroupBeam(**{**options, "beam_size": size, "beam_groups": self.groups})

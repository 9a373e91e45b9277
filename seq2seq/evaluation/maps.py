"""Where a model looked while it wrote a translation, word by word."""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.errors import ConfigError
from seq2seq.evaluation.alignment import Link, Word, links


class Alignment(NamedTuple):
    """Where a model looked while it wrote each word of a translation.

    `weights` (L, H, T, S + 1) for each layer, head, target word and source word; the last column
    belongs to the end of the source. A row sums to one.
    """

    source: list[Word]
    target: list[Word]
    weights: Tensor

    def layer(self, number: int) -> int:
        """The index of a layer counted from 1. Raises: ConfigError if there is none."""
        return _index("layer", number, self.weights.shape[0])

    def head(self, number: int) -> int:
        """The index of a head counted from 1. Raises: ConfigError if there is none."""
        return _index("head", number, self.weights.shape[1])

    def map(self, layer: int, head: int | None = None) -> Tensor:
        """The weights of a layer: of one head, or the mean over heads; (T, S + 1)."""
        heads = self.weights[layer]
        return heads.mean(0) if head is None else heads[head]

    def links(self, layer: int, head: int | None = None) -> set[Link]:
        """Each target word linked to the source word that it looks at most, by that map."""
        return links(self.map(layer, head), end=True)

    def sharpest(self) -> int:
        """The layer whose words agree best on where to look: the least entropy of the mean over
        heads.
        """
        return int(self.entropies().argmin())

    def entropies(self) -> Tensor:
        """(L,): how widely a word looks, in nats, by the mean over heads and target words."""
        return torch.special.entr(self.weights.mean(1)).sum(-1).mean(-1)


def _index(what: str, number: int, count: int) -> int:
    if not 1 <= number <= count:
        raise ConfigError(f"{what} {number} does not exist: there are 1 ... {count}")
    return number - 1

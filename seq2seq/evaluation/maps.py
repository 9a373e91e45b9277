"""Where a model looked while it wrote a translation, word by word."""

from collections.abc import Sequence
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

    def map(self, layer: int, head: int | None = None) -> Tensor:
        """The weights of a layer: of one head, or the mean over heads; (T, S + 1)."""
        heads = self.weights[layer]
        return heads.mean(0) if head is None else heads[head]

    def links(self, layer: int, head: int | None = None) -> set[Link]:
        """Each target word linked to the source word that it looks at most, by that map."""
        return links(self.map(layer, head), end=True)

    def entropies(self) -> Tensor:
        """(L,): how widely a word looks, in nats, by the mean over heads and target words."""
        return torch.special.entr(self.weights.mean(1)).sum(-1).mean(-1)


class Choice(NamedTuple):
    """What of an alignment is shown: a layer and a head of it, None for the mean over heads, or
    all of them apart; and the same in words.
    """

    layer: int
    head: int | None
    apart: bool
    words: str


def choose(
    alignments: Sequence[Alignment], layer: int | None = None, heads: str | int = "mean"
) -> Choice:
    """A layer and heads by what a user asks for.

    Args:
        alignments: some by one model, at least one.
        layer: counted from 1; None for the layer that looks sharpest: whose words agree best on
            where to look, by the least entropy of the mean over heads.
        heads: `mean`, `all`, or the number of one, from 1.

    Raises: ConfigError for a number that there is not.
    """
    layers, count = alignments[0].weights.shape[:2]
    if layer is None:
        index = int(torch.stack([a.entropies() for a in alignments]).mean(0).argmin())
    else:
        index = _index("layer", layer, layers)
    head = _index("head", heads, count) if isinstance(heads, int) else None
    shown = {"mean": "all heads", "all": f"each of {count} heads"}
    words = shown[heads] if isinstance(heads, str) else f"head {heads} of {count}"
    return Choice(index, head, heads == "all", f"decoder layer {index + 1} of {layers}, {words}")


def _index(what: str, number: int, count: int) -> int:
    if not 1 <= number <= count:
        raise ConfigError(f"{what} {number} does not exist: there are 1 ... {count}")
    return number - 1

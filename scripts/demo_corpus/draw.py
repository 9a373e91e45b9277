"""The only source of randomness of the grammar."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random choices determined by a seed, the same on every machine."""

    def __init__(self, seed: int) -> None:
        # Of random.Random, only random() is guaranteed never to change.
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, with equal probability."""
        return options[int(self._random() * len(options))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, in proportion to its weight."""
        return self.pick([key for key, weight in weights.items() for _ in range(weight)])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        keys = [self._random() for _ in items]
        return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]

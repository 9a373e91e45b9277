"""The one source of chance of the grammar."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random choices that follow from a seed, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._rng.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all alike."""
        return options[self._rng.randrange(len(options))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, in proportion to its weight."""
        return self._rng.choices(list(weights), list(weights.values()))[0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        return self._rng.sample(items, len(items))

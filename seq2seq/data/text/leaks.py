"""Copies and near-copies of texts, by which held-out text leaks into training text.

Two texts are copies if their letters and digits are equal; case, accents, width, punctuation and
spaces do not count. They are near-copies if they have the same words in the same order after at
most one word is taken out of each, and if the longer text has at least `WORDS` words and `LETTERS`
letters. A character of Chinese or Japanese is a word.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from seq2seq.data.text.formats import Pair

WORDS, LETTERS = 8, 24  # shorter texts may differ by one word and mean something else


@cache
def fold_character(character: str) -> str:
    """The letters and digits of a character; a space for punctuation, nothing for an accent."""
    parts = unicodedata.normalize("NFKD", character)
    text = "".join(part for part in parts if unicodedata.category(part)[0] in "LN")
    if not text:
        return "" if unicodedata.category(character)[0] == "M" else " "
    # A Korean syllable consists of several letters.
    is_word = len(text) == 1 and unicodedata.east_asian_width(text) == "W"
    return f" {text} " if is_word else text


def fold_text(text: str) -> list[str]:
    """The words of a text in lower case, without accents and punctuation."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return "".join(map(fold_character, text)).split()


def copy_keys(text: str) -> list[int]:
    """Hashes of a text: copies share the first one, near-copies share some of the others. They hold
    within a process. A text without letters and digits has none.
    """
    words = tuple(fold_text(text))
    whole = "".join(words)
    keys = [hash(whole), hash(words)] if whole else []
    if len(words) >= WORDS and len(whole) >= LETTERS:
        keys += [hash(words[:i] + words[i + 1 :]) for i in range(len(words))]
    return keys


class Leaks(NamedTuple):
    """The number of held-out pairs that leak into training.

    Attributes:
        source: pairs whose source is a copy of a training source.
        target: pairs whose target is a copy of a training target.
        pairs: pairs with either.
        near: other pairs with a near-copy on either side.
    """

    source: int = 0
    target: int = 0
    pairs: int = 0
    near: int = 0

    def describe(self, total: int, name: str) -> str:
        """A sentence about `total` pairs of a part."""
        return (
            f"{self.pairs:,} of {total:,} {name} pairs have a side that is also in train, apart "
            f"from case, accents and punctuation; {self.near:,} others differ from it by a word"
        )


def count_leaks(held_out: Sequence[Pair], train: Iterable[Pair]) -> Leaks:
    """Count the held-out pairs that leak. Reads the training pairs once, at about 16 µs each."""
    keys = [[copy_keys(pair[side]) for pair in held_out] for side in (0, 1)]
    wanted = [{key for row in rows for key in row} for rows in keys]
    found: list[set[int]] = [set() for _ in keys]
    for pair in train:
        for text, some, known in zip(pair, wanted, found, strict=True):
            known |= some.intersection(copy_keys(text))
    rows = list(zip(keys, found, strict=True))
    copies = np.array([[not some.isdisjoint(row[:1]) for row in each] for each, some in rows])
    near = np.array([[not some.isdisjoint(row) for row in each] for each, some in rows])
    pairs = copies.any(0)
    return Leaks(*map(int, (*copies.sum(1), pairs.sum(), (near.any(0) & ~pairs).sum())))

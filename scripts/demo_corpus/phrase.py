"""Words with the parts of the meaning they express, and the alignment that follows."""

from collections.abc import Sequence
from typing import NamedTuple


class Word(NamedTuple):
    """A word form and the paths of the parts of the meaning that it expresses.

    The contraction `im` expresses both `place.prep` and `place.det`; a particle expresses nothing.
    """

    form: str
    paths: tuple[str, ...] = ()


Phrase = list[Word]


def phrase(forms: str, *paths: str) -> Phrase:
    """The forms, separated by spaces, as words that all express the same paths."""
    return [Word(form, paths) for form in forms.split()]


def nest(role: str, inner: Sequence[Word]) -> Phrase:
    """The phrase as a part of a larger one: `noun` becomes `subject.noun`."""
    return [Word(word.form, tuple(f"{role}.{path}" for path in word.paths)) for word in inner]


def comma(inner: Sequence[Word]) -> Phrase:
    """The phrase with a comma on its last word, unless it ends in one."""
    return close(inner, ",")


def close(inner: Sequence[Word], mark: str) -> Phrase:
    """The phrase with a punctuation mark on its last word, in place of a comma there."""
    *front, last = inner
    return [*front, Word(last.form.rstrip(",") + mark, last.paths)]


def text(inner: Sequence[Word]) -> str:
    """The phrase as a sentence: words joined by spaces, the first one capitalised."""
    joined = " ".join(word.form for word in inner)
    return joined[0].upper() + joined[1:]


def links(source: Sequence[Word], target: Sequence[Word]) -> list[tuple[int, int]]:
    """All (i, j) such that source word i and target word j express a common part of the meaning."""
    return [
        (i, j)
        for i, left in enumerate(source)
        for j, right in enumerate(target)
        if not set(left.paths).isdisjoint(right.paths)
    ]

"""What a translation must and must not contain: an automaton that reads its pieces one by one."""

from collections.abc import Sequence
from typing import NamedTuple

from seq2seq.data.spelling import Spelling
from seq2seq.symbols import EOS

FORBIDDEN = -1


class Term(NamedTuple):
    """Phrases of which a text contains as many as a number allows; a contained word is a whole one.

    Phrases may overlap, also with those of other terms.
    """

    phrases: tuple[str, ...]  # alternatives
    minimum: int = 1
    maximum: int | None = None  # None = any number


class Reading(NamedTuple):
    """A state: what matters of the pieces that were read."""

    rest: bytes  # that the text must go on with
    tail: bytes = b""  # of a character that is not complete
    after_word: bool = False  # is the last character part of a word?
    matches: frozenset[tuple[int, int]] = frozenset()  # phrases, and how many characters matched
    counts: tuple[int, ...] = ()  # of each term


class LexicalGuide:
    """Guides a hypothesis to contain terms, after a given beginning; see `decoding.guides.Guide`.

    States are integers, 0 at first; the transitions that a search asks for are remembered.

    Args:
        spelling: of the target's pieces.
        terms: what to contain.
        rest: bytes that the text begins with, after the pieces that are forced.
        spaceless: does every character of the language begin a word?
    """

    def __init__(
        self, spelling: Spelling, terms: Sequence[Term] = (), rest: bytes = b"", *, spaceless: bool
    ):
        self.spelling, self.terms, self.spaceless = spelling, terms, spaceless
        self.phrases = [(phrase, i) for i, term in enumerate(terms) for phrase in term.phrases]
        self._pieces = [Pieces(spelling, phrase) for phrase, _ in self.phrases]
        self._states: dict[Reading, int] = {}
        self._readings: list[Reading] = []
        self._after: list[dict[int, int]] = []
        self._state(Reading(rest, counts=(0,) * len(terms)))

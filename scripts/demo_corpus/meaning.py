"""The meaning of a sentence, independent of the language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from demo_corpus.lexicon import Adjective, Modal, Noun, Verb


class Tense(Enum):
    """The time of an event, as German marks it; the German perfect is the English simple past."""

    PRESENT = "present"
    PERFECT = "perfect"
    FUTURE = "future"


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; person is 1 to 3, gender matters in the third person singular."""

    person: int
    plural: bool = False
    gender: str = "m"


@dataclass(frozen=True)
class Name:
    """A person's name, the same in both languages."""

    name: str
    person: int = 3
    plural: bool = False


@dataclass(frozen=True)
class Question:
    """An interrogative pronoun in the place of a noun phrase: wer or was."""

    german: str
    english: str
    person: int = 3
    plural: bool = False


@dataclass(frozen=True)
class NounPhrase:
    """A noun with its determiner (named by its English word), adjective, number and modifiers.

    `content` is what a noun of measure measures: the coffee in a cup of coffee.
    """

    noun: Noun
    determiner: str
    plural: bool = False
    adjective: Adjective | None = None
    count: int = 0
    content: Noun | None = None
    owner: Name | NounPhrase | None = None
    attribute: Prepositional | None = None
    relative: Relative | None = None
    person: int = 3


@dataclass(frozen=True)
class Prepositional:
    """A preposition, the case it governs, its English counterpart, and what follows it."""

    german: str
    case: str
    english: str
    inner: Nominal
    bare: bool = False


@dataclass(frozen=True)
class Adverb:
    """Fixed words: each English word has the index of the German word it translates.

    `future` is for those that put a German present into the future (English "will").
    """

    german: str
    english: str
    future: bool = False


@dataclass(frozen=True)
class Relative:
    """A clause that describes a noun, with that noun left out of the role `gap`."""

    clause: Clause
    gap: str


@dataclass(frozen=True)
class Clause:
    """A verb and what goes with it, by role.

    `past` is for the copula, whose simple past German does use; `negation` is empty or the path of
    the word of negation: `not` for nicht, `object.det` for kein.
    """

    verb: Verb
    parts: Mapping[str, Constituent] = field(default_factory=dict)
    tense: Tense = Tense.PRESENT
    modal: Modal | None = None
    past: bool = False
    negation: str = ""
    front: str = "subject"

    @property
    def subject(self) -> Nominal:
        """The subject; every clause has one, and the finite verb agrees with it."""
        subject = self.parts["subject"]
        assert not isinstance(subject, Prepositional | Adverb)
        return subject


Nominal = Pronoun | Name | Question | NounPhrase
Constituent = Nominal | Prepositional | Adverb

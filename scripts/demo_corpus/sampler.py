"""Draws meanings at random: nouns that suit their verbs, adverbials that suit their tense."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from demo_corpus import words
from demo_corpus.lexicon import ADJECTIVES, COMPARATIVES, COPULA, MODALS, NOUNS, VERBS, Modal, Verb
from demo_corpus.meaning import (
    Adverb,
    Clause,
    Constituent,
    Name,
    Nominal,
    NounPhrase,
    Prepositional,
    Pronoun,
    Relative,
    Tense,
)

T = TypeVar("T")

FRAME_WEIGHTS = {
    "transitive": 46,
    "intransitive": 11,
    "dative": 8,
    "ditransitive": 9,
    "prepositional": 13,
    "directional": 8,
    "copula": 8,
}
# Nouns of these kinds may belong to somebody: Anna's old coat.
OWNED = "CRUVGX"
COUNTS = [*range(2, 13), *range(20, 60)]
SIMPLE_COUNTS = [count for count in COUNTS if count <= 12]
HOURS = range(2, 13)


class Sampler:
    """A source of random meanings; everything it draws follows from its generator of numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all alike."""
        return options[self.rng.randrange(len(options))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, in proportion to its weight."""
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def count(self) -> int:
        """A number of things, as often below thirteen as above."""
        return self.pick(SIMPLE_COUNTS) if self.chance(0.5) else self.pick(COUNTS)

    # Noun phrases.

    def noun_phrase(self, kinds: str, *, subject: bool = False) -> NounPhrase:
        """A noun of one of these kinds with a determiner and perhaps an adjective."""
        noun = self.pick([noun for kind in kinds for noun in NOUNS[kind]])
        part = NounPhrase(noun, "the", plural=bool(noun.plural) and self.chance(0.25))
        part = self._determined(part, subject)
        fitting = [adjective for adjective in ADJECTIVES if noun.kind in adjective.kinds]
        if fitting and self.chance(0.28):
            part = replace(part, adjective=self.pick(fitting))
        return part

    def _determined(self, part: NounPhrase, subject: bool) -> NounPhrase:
        if part.plural:
            weights = {"the": 40, "": 12, "many": 6, "some": 6, "all": 6, "this": 8, "my": 6}
            if self.chance(0.3):
                return replace(part, determiner=self.pick(["", "the"]), count=self.count())
        elif part.noun.plural:
            weights = {"the": 52, "a": 26, "this": 7, "my": 4, "your": 2, "his": 4, "our": 4}
            if subject:
                weights["every"] = 3
        else:
            weights = {"the": 50, "": 36, "this": 7, "my": 4, "our": 3}
        return replace(part, determiner=self.weighted(weights))

    def definite(self, kinds: str) -> NounPhrase:
        """A singular with the definite article, as prepositions of place mostly take it."""
        part = self.noun_phrase(kinds)
        part = replace(part, determiner="the", plural=False, count=0)
        return part if self.chance(0.4) else replace(part, adjective=None)

    def object(self, kinds: str) -> NounPhrase:
        """A noun phrase that may say whose it is, or what a person wears."""
        part = self.noun_phrase(kinds)
        if part.noun.kind in OWNED and part.determiner == "the" and self.chance(0.12):
            return replace(part, owner=self.pick(words.NAMES))
        if part.noun.kind == "P" and self.chance(0.06):
            garment = Prepositional("mit", "dat", "with", self.definite("C"))
            return replace(part, attribute=garment)
        return part

    def subject(self, kinds: str, *, second_person: bool) -> Nominal:
        """A noun phrase, a name or a pronoun."""
        if "P" not in kinds or self.chance(0.42):
            return self.noun_phrase("P" if "P" in kinds and self.chance(0.7) else kinds, subject=True)
        if self.chance(0.5):
            return Name(self.pick(words.NAMES))
        options = [Pronoun(1), Pronoun(3), Pronoun(3, gender="f")]
        options += [Pronoun(1, True), Pronoun(3, True)]
        return self.pick(options + [Pronoun(2), Pronoun(2, True)] * second_person)

    def object_pronoun(self, subject: Nominal, dative: bool) -> Pronoun:
        """A pronoun for somebody else than the subject; sie and ihr have too many readings."""
        options = [Pronoun(1), Pronoun(2), Pronoun(3), Pronoun(1, True), Pronoun(2, True)]
        options += [Pronoun(3, True)] * dative
        return self.pick([option for option in options if option.person != subject.person])

    # Adverbials.

    def time(self, tense: Tense, modal: Modal | None) -> tuple[Adverb, bool]:
        """An adverbial of time, and whether it puts a present into the future."""
        if tense is Tense.PERFECT or (modal and modal.past):
            special, future = words.PAST_TIMES, False
        elif tense is Tense.FUTURE or self.chance(0.4):
            special, future = words.FUTURE_TIMES, True
        else:
            special, future = words.PRESENT_TIMES, False
        if self.chance(0.5):
            german = self.pick(list(special))
            return Adverb(german, special[german]), future
        if special is words.PAST_TIMES and self.chance(0.3):
            return self.ago(), False
        if self.chance(0.3):
            return self.clock(), False
        german = self.pick(list(words.ANY_TIMES))
        return Adverb(german, words.ANY_TIMES[german]), False

    def ago(self) -> Adverb:
        """vor drei Tagen: three days ago."""
        period = self.pick(list(words.PERIODS))
        german, english = words.numeral(self.pick(SIMPLE_COUNTS))
        return Adverb(f"vor {german} {period}", f"{english}:1 {words.PERIODS[period]}:2 ago:0")

    def clock(self) -> Adverb:
        """um drei Uhr: at three o'clock; um halb drei: at half past two."""
        hour = self.pick(HOURS)
        german, english = words.numeral(hour)
        if self.chance(0.6):
            return Adverb(f"um {german} Uhr", f"at:0 {english}:1 o'clock:2")
        previous = words.numeral(hour - 1)[1]
        return Adverb(f"um halb {german}", f"at:0 half:1 past:1 {previous}:2")

    def adverb(self, table: Mapping[str, str]) -> Adverb:
        """One row of a table of adverbs."""
        german = self.pick(list(table))
        return Adverb(german, table[german])

    def place(self, table: Mapping[str, tuple[str, str, str]]) -> Prepositional:
        """Where, or where to, by the kind of place."""
        kind = self.pick(list(table))
        return Prepositional(*table[kind], self.definite(kind))

    def companion(self) -> Prepositional:
        """With, without or for somebody."""
        preposition = self.pick([("mit", "dat", "with"), ("ohne", "acc", "without")])
        inner = Name(self.pick(words.NAMES)) if self.chance(0.4) else self.noun_phrase("P")
        return Prepositional(*preposition, inner)

    # Clauses.

    def clause(self, *, plain: bool = False) -> Clause:
        """A clause of any frame; a plain one has no adverbial of time, no particle, no negation."""
        frame = self.weighted(FRAME_WEIGHTS)
        if frame == "copula":
            return self.copula_clause()
        return self.verbal_clause(self.pick(VERBS[frame]), plain=plain)

    def verbal_clause(self, verb: Verb, *, plain: bool = False) -> Clause:
        """A clause around this verb."""
        tense, modal = self._tense()
        compound = modal is not None or tense is not Tense.PRESENT
        animate = verb.complement if verb.frame == "intransitive" else "P"
        parts: dict[str, Constituent] = {
            "subject": self.subject(animate, second_person=compound)
        }
        clause = Clause(verb, parts | self.arguments(verb, parts["subject"]), tense, modal)
        if not plain:
            clause = self._negated(self._timed(clause))
        return self._fronted(self._placed(clause))

    def _tense(self) -> tuple[Tense, Modal | None]:
        kind = self.weighted({"present": 42, "perfect": 34, "modal": 18, "future": 6})
        if kind == "modal":
            return Tense.PRESENT, self.pick(MODALS)
        return Tense(kind), None

    def arguments(self, verb: Verb, subject: Constituent) -> dict[str, Constituent]:
        """Objects and prepositional objects, as the frame of the verb asks."""
        assert isinstance(subject, Pronoun | Name | NounPhrase)
        if verb.frame in ("transitive", "dative"):
            if "P" in verb.complement and self.chance(0.15):
                return {"object": self.object_pronoun(subject, verb.frame == "dative")}
            if "P" in verb.complement and self.chance(0.12):
                return {"object": Name(self.pick(words.NAMES))}
            return {"object": self.object(verb.complement)}
        if verb.frame == "ditransitive":
            recipient: Constituent = self.noun_phrase("P")
            if self.chance(0.4):
                recipient = self.object_pronoun(subject, dative=True)
            return {"recipient": recipient, "object": self.object(verb.complement)}
        if verb.frame == "prepositional":
            return {"oblique": Prepositional(*verb.preposition, self.noun_phrase(verb.complement))}
        if verb.frame == "directional":
            return {"direction": self.place(words.DIRECTIONS)}
        return {}

    def _timed(self, clause: Clause) -> Clause:
        parts, future = dict(clause.parts), False
        simple = clause.tense is Tense.PRESENT and clause.modal is None
        if self.chance(0.45):
            parts["time"], future = self.time(clause.tense, clause.modal)
        elif simple and self.chance(0.5):
            stative = clause.verb.english.startswith("be ")
            role = self.pick(["frequency", "liking", "frequency" if stative else "aspect"])
            fixed = {"aspect": Adverb("gerade", ""), "liking": Adverb("gern", "")}
            parts[role] = fixed[role] if role in fixed else self.adverb(words.FREQUENCIES)
        if self.chance(0.12):
            parts["particle"] = Adverb(self.pick(words.STATEMENT_PARTICLES), "")
        return replace(clause, parts=parts, future=future and simple)

    def _placed(self, clause: Clause) -> Clause:
        parts = dict(clause.parts)
        active = clause.verb.frame in ("transitive", "intransitive", "directional")
        if active and not clause.verb.reflexive and self.chance(0.08):
            parts["manner"] = self.adverb(words.MANNERS)
        if active and self.chance(0.1):
            parts["companion"] = self.companion()
        if clause.verb.frame == "directional" and self.chance(0.2):
            parts["transport"] = Prepositional("mit", "dat", "by", self.vehicle(), bare=True)
        elif clause.verb.frame != "directional" and self.chance(0.22):
            parts["place"] = self.place(words.LOCATIONS)
        return replace(clause, parts=parts)

    def vehicle(self) -> NounPhrase:
        """mit dem Zug: by train."""
        return NounPhrase(self.pick(NOUNS["V"]), "the")

    def _negated(self, clause: Clause) -> Clause:
        quantified = isinstance(clause.subject, NounPhrase) and (
            clause.subject.determiner in ("every", "many", "all", "some")
        )
        if quantified or "frequency" in clause.parts or not self.chance(0.16):
            return clause
        target = clause.parts.get("object")
        if not isinstance(target, NounPhrase) or target.determiner not in ("a", "") or target.count:
            return replace(clause, negation="not")
        none = replace(target, determiner="no")
        return replace(clause, parts={**clause.parts, "object": none}, negation="object.det")

    def _fronted(self, clause: Clause) -> Clause:
        options = [role for role in ("time", "time", "place") if role in clause.parts]
        target = clause.parts.get("object")
        if isinstance(target, NounPhrase) and target.determiner not in ("no", ""):
            options += ["object"] * (clause.verb.frame == "dative" or marked(clause))
        if not options or self.chance(0.45):
            return clause
        return replace(clause, front=self.pick(options))

    def copula_clause(self) -> Clause:
        """Somebody or something is such, or more so than another."""
        past = self.chance(0.35)
        if self.chance(0.35):
            adjective = self.pick([word for word in ADJECTIVES if word.german in COMPARATIVES])
            german, english = COMPARATIVES[adjective.german]
            subject, other = self.definite(adjective.kinds), self.definite(adjective.kinds)
            more = " ".join(f"{word}:0" for word in english.split())
            parts: dict[str, Constituent] = {
                "subject": subject,
                "predicate": Adverb(german, more),
                "standard": Prepositional("als", "nom", "than", other),
            }
            return Clause(COPULA, parts, past=past)
        adjective = self.pick(ADJECTIVES)
        subject = replace(self.noun_phrase(adjective.kinds, subject=True), adjective=None)
        parts = {
            "subject": subject,
            "predicate": Adverb(adjective.german, f"{adjective.english}:0"),
        }
        return Clause(COPULA, parts, past=past, negation="not" if self.chance(0.15) else "")

    def described(self, clause: Clause) -> Clause:
        """The clause with a relative clause on its subject or object, where one fits."""
        subject, target = clause.parts["subject"], clause.parts.get("object")
        if isinstance(subject, NounPhrase) and subject.noun.kind == "P":
            inner = self.clause(plain=True)
            head = replace(subject, adjective=None)
            if inner.verb.frame == "copula":
                return clause
            parts = {**inner.parts, "subject": head}
            told = Relative(replace(inner, parts=parts), "subject")
            return replace(clause, parts={**clause.parts, "subject": replace(subject, relative=told)})
        if isinstance(target, NounPhrase) and target.noun.kind not in "PA" and not target.owner:
            verbs = [verb for verb in VERBS["transitive"] if target.noun.kind in verb.complement]
            inner = self.verbal_clause(self.pick(verbs), plain=True)
            parts = {**inner.parts, "object": replace(target, adjective=None)}
            told = Relative(replace(inner, parts=parts), "object")
            return replace(clause, parts={**clause.parts, "object": replace(target, relative=told)})
        return clause


def marked(clause: Clause) -> bool:
    """Whether the forms alone tell subject from object, so that the object may come first."""
    subject, target = clause.parts["subject"], clause.parts.get("object")
    if isinstance(subject, Pronoun):
        return subject.person < 3 or (subject.gender == "m" and not subject.plural)
    return any(
        isinstance(part, NounPhrase) and part.noun.gender == "m" and not part.plural
        for part in (subject, target)
    )

"""A meaning in English: subject, verb, object, place, time, whatever comes first in German."""

from itertools import pairwise
from typing import NamedTuple

from demo_corpus import english
from demo_corpus.meaning import (
    Adverb,
    Clause,
    Constituent,
    Name,
    NounPhrase,
    Prepositional,
    Pronoun,
    Question,
    Relative,
    Tense,
)
from demo_corpus.phrase import Phrase, Word, nest, phrase
from demo_corpus.words import numeral

AFTER_VERB = (
    "predicate",
    "standard",
    "object",
    "recipient",
    "oblique",
    "manner",
    "companion",
    "transport",
    "direction",
    "place",
    "time",
)


def constituent(part: Constituent, subject: bool = False) -> Phrase:
    """Any part of a clause in English."""
    match part:
        case Pronoun():
            return [Word(english.pronoun(part, subject), ("noun",))]
        case Name():
            return [Word(part.name, ("noun",))]
        case Question():
            return [Word(part.english, ("noun",))]
        case Adverb():
            pairs = (word.split(":") for word in part.english.split())
            return [Word(form, (index,) if index != "-" else ()) for form, index in pairs]
        case Prepositional():
            return prepositional(part)
        case NounPhrase():
            return noun_phrase(part)


def noun_phrase(part: NounPhrase, bare: bool = False) -> Phrase:
    """Owner or determiner, numeral, adjective, noun, and what describes them."""
    words: Phrase = []
    if part.count:
        words += phrase(numeral(part.count)[1], "count")
    if part.adjective:
        words += phrase(part.adjective.english, "adjective")
    words += phrase(english.noun_form(part.noun, part.plural), "noun")
    if part.content:
        content = english.noun_form(part.content, bool(part.content.plural))
        words += [Word("of"), *phrase(content, "content")]
    if isinstance(part.owner, Name):
        words = [Word(f"{part.owner.name}'s", ("owner",)), *words]
    elif not bare:
        determiner = english.determiner(part.determiner, part.noun, part.plural)
        paths = ("det",) if part.determiner else ()
        words = phrase(english.article(determiner, words[0].form), *paths) + words
    if isinstance(part.owner, NounPhrase):
        # The German genitive needs no preposition.
        words += [Word("of"), *nest("owner", noun_phrase(part.owner))]
    if part.attribute:
        words += nest("attribute", prepositional(part.attribute))
    if part.relative:
        words += nest("relative", relative(part.relative, part.noun.kind == "P"))
    return words


def relative(part: Relative, human: bool) -> Phrase:
    """who sleeps, that Anna bought."""
    pronoun = Word("who" if human else "that", ("pronoun",))
    return [pronoun, *statement(part.clause, omit=part.gap)]


def prepositional(part: Prepositional) -> Phrase:
    """The preposition, if English has one, and what follows it."""
    if isinstance(part.inner, NounPhrase):
        inner = noun_phrase(part.inner, part.bare)
    else:
        inner = constituent(part.inner)
    return phrase(part.english, "prep") + nest("inner", inner)


class VerbGroup(NamedTuple):
    """The English verbs of a clause: an auxiliary (perhaps none) and the others.

    The auxiliary goes before the subject in a question, and before not and adverbs.
    """

    auxiliary: Phrase
    others: Phrase


class Verbal(NamedTuple):
    """One verb of the group before inflection, and the form it requires of the next."""

    lemma: str
    tail: str
    paths: tuple[str, ...]
    next_form: str = "base"


def late_particle(clause: Clause) -> Phrase:
    """The particle of the verb where a pronoun comes before it: picks us up, not picks up us."""
    particle = english.tail(clause.verb)
    late = particle in english.PARTICLES and isinstance(clause.parts.get("object"), Pronoun)
    return phrase(particle, "verb") if late else []


def base_verb(clause: Clause) -> VerbGroup:
    """The verb of a request or an infinitive, which is not inflected."""
    tail = "" if late_particle(clause) else english.tail(clause.verb)
    return VerbGroup([], phrase(f"{english.head(clause.verb)} {tail}", "verb"))


def _chain(clause: Clause) -> list[Verbal]:
    verb = clause.verb
    tail = "" if late_particle(clause) else english.tail(verb)
    main = Verbal(english.head(verb), tail, ("verb",))
    if clause.modal:
        first, *rest = clause.modal.english.split()
        return [Verbal(first, " ".join(rest), ("modal",)), main]
    time = clause.parts.get("time")
    if clause.tense is Tense.FUTURE or (isinstance(time, Adverb) and time.future):
        return [Verbal("will", "", ("tense",)), main]
    if "aspect" in clause.parts:
        return [Verbal("be", "", ("tense", "aspect.0"), "progressive"), main]
    if "liking" in clause.parts:
        return [Verbal("like", "to", ("liking.0",)), main]
    return [main._replace(paths=("tense", "verb"))]


def _past(clause: Clause, lemma: str) -> str:
    """The past form of the finite verb, empty in the present."""
    if clause.modal:
        return english.past_tense(lemma) if clause.modal.past else ""
    if clause.past or clause.tense is Tense.PERFECT:
        return english.past_tense(lemma, clause.verb.english_past)
    return ""


def _later(chain: list[Verbal]) -> Phrase:
    words: Phrase = []
    for before, verbal in pairwise(chain):
        lemma = verbal.lemma
        form = english.progressive(lemma) if before.next_form == "progressive" else lemma
        words += phrase(form, *verbal.paths) + phrase(verbal.tail, "verb")
    return words


def verb_group(clause: Clause, inverted: bool = False) -> VerbGroup:
    """The inflected verbs; do steps in where a negation or a question needs an auxiliary."""
    chain = _chain(clause)
    first = chain[0]
    person, plural = clause.subject.person, clause.subject.plural
    past = _past(clause, first.lemma)
    tail_paths = first.paths if len(chain) > 1 else ("verb",)
    tail, later = phrase(first.tail, *tail_paths), _later(chain)
    if first.lemma in english.AUXILIARIES:
        form = english.finite(first.lemma, past, person, plural)
        return VerbGroup(phrase(form, *first.paths), tail + later)
    if not (clause.negation or inverted):
        form = english.finite(first.lemma, past, person, plural)
        return VerbGroup([], phrase(form, *first.paths) + tail + later)
    support = english.finite("do", "did" if past else "", person, plural)
    # The past has its own word in German (hat), the present has none: "does" translates nothing.
    paths = (("modal",) if clause.modal else ("tense",)) if past else ()
    base = tuple(path for path in first.paths if path != "tense")
    return VerbGroup(phrase(support, *paths), phrase(first.lemma, *base) + tail + later)


def role_phrase(clause: Clause, role: str) -> Phrase:
    """One role of the clause as a phrase; empty where the clause does not fill it."""
    if role not in clause.parts:
        return []
    words = nest(role, constituent(clause.parts[role], role == "subject"))
    # German marks the recipient by its case alone.
    return [Word("to"), *words] if role == "recipient" else words


def predicate(clause: Clause, group: VerbGroup, omit: str = "") -> Phrase:
    """Negation, adverb of frequency, the verbs after the auxiliary, objects and adverbials."""
    words = phrase("not", clause.negation) if clause.negation else []
    words += role_phrase(clause, "frequency") + group.others
    for role in AFTER_VERB:
        if role != omit:
            words += role_phrase(clause, role)
        if role == "object":
            words += late_particle(clause)
    return words


def _joined(words: Phrase) -> Phrase:
    """English writes can not as one word."""
    for index in range(len(words) - 1):
        if words[index].form == "can" and words[index + 1].form == "not":
            paths = words[index].paths + words[index + 1].paths
            return [*words[:index], Word("cannot", paths), *words[index + 2 :]]
    return words


def statement(clause: Clause, omit: str = "") -> Phrase:
    """Subject, verbs, objects, adverbials; `omit` is the gap of a relative clause."""
    subject = [] if omit == "subject" else role_phrase(clause, "subject")
    group = verb_group(clause)
    return subject + _joined(group.auxiliary + predicate(clause, group, omit))


def question(clause: Clause, omit: str = "") -> Phrase:
    """Auxiliary before subject; `omit` is the role of the question word, which is already there."""
    group = verb_group(clause, inverted=True)
    return group.auxiliary + role_phrase(clause, "subject") + predicate(clause, group, omit)


def infinitive_clause(clause: Clause) -> Phrase:
    """The bare verb with what follows it; the word to goes before."""
    return phrase("to", "to") + predicate(clause, base_verb(clause))

"""English inflection: articles, noun and verb forms."""

import re

from demo_corpus.lexicon import Noun, Verb
from demo_corpus.meaning import Pronoun

SUBJECTS = ("I", "you", "he", "we", "you", "they")
OBJECTS = ("me", "you", "him", "us", "you", "them")
AUXILIARIES = ("be", "can", "must", "should", "may", "will", "would", "could")
# A pronoun stands before these words of a verb: turn it off, but look for it.
PARTICLES = ("up", "down", "on", "off", "away", "along", "aloud", "back")
IRREGULAR_PAST = {"have": "had", "do": "did", "want": "wanted", "like": "liked"}
DOUBLING = re.compile(r"^([^aeiou]*[aeiou][^aeiouwxy]|forget|cancel|travel)$")


def pronoun(word: Pronoun, subject: bool) -> str:
    """The personal pronoun as a subject or as an object."""
    if word.person == 3 and not word.plural and subject:
        return {"m": "he", "f": "she", "n": "it"}[word.gender]
    return (SUBJECTS if subject else OBJECTS)[word.person - 1 + 3 * word.plural]


def determiner(word: str, noun: Noun, plural: bool) -> str:
    """The determiner before this noun: this or these, a or nothing, some before uncounted nouns.

    Of kein, "not" goes to the verb and leaves a, or any where a cannot be.
    """
    if not plural and noun.plural:
        return "a" if word == "no" else word
    if not plural and not word:
        return "some"
    return {"this": "these" if plural else "this", "no": "any", "all": "all the"}.get(word, word)


def article(word: str, following: str) -> str:
    """The indefinite article before a vowel sound: an old house, but a university."""
    vowel = following[0] in "aeiou" and not following.startswith(("uni", "use"))
    return "an" if word == "a" and vowel else word


def noun_form(noun: Noun, plural: bool) -> str:
    """Singular or plural."""
    return noun.english_plural if plural else noun.english


def finite(lemma: str, past: str, person: int, plural: bool) -> str:
    """The finite form: the past where one is given, else the present."""
    if lemma == "be":
        return _be(bool(past), person, plural)
    if lemma in AUXILIARIES:
        return lemma
    if past:
        return past
    return third_person(lemma) if person == 3 and not plural else lemma


def _be(past: bool, person: int, plural: bool) -> str:
    if plural or person == 2:
        return "were" if past else "are"
    if past:
        return "was"
    return "am" if person == 1 else "is"


def third_person(lemma: str) -> str:
    """The third person singular of the present: goes, carries, watches."""
    if lemma == "have":
        return "has"
    if lemma.endswith(("s", "x", "ch", "sh", "o")):
        return lemma + "es"
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return lemma[:-1] + "ies"
    return lemma + "s"


def past_tense(lemma: str, irregular: str = "") -> str:
    """The simple past: the irregular form where there is one, else -ed."""
    if irregular or lemma in IRREGULAR_PAST:
        return irregular or IRREGULAR_PAST[lemma]
    if lemma.endswith("e"):
        return lemma + "d"
    if lemma.endswith("y") and lemma[-2] not in "aeiou":
        return lemma[:-1] + "ied"
    return (lemma + lemma[-1] if DOUBLING.match(lemma) else lemma) + "ed"


def progressive(lemma: str) -> str:
    """The -ing form: lying, taking, running."""
    if lemma.endswith("ie"):
        return lemma[:-2] + "ying"
    if lemma.endswith("e") and not lemma.endswith("ee") and lemma != "be":
        return lemma[:-1] + "ing"
    return (lemma + lemma[-1] if DOUBLING.match(lemma) else lemma) + "ing"


def head(verb: Verb) -> str:
    """The word of the English verb that is inflected: turn in turn off."""
    return verb.english.split()[0]


def tail(verb: Verb) -> str:
    """The words that follow it: off in turn off."""
    return " ".join(verb.english.split()[1:])

"""Random noun phrases, names and pronouns."""

from dataclasses import replace

from demo_corpus import words
from demo_corpus.draw import Draw
from demo_corpus.lexicon import ADJECTIVES, MEASURES, NAMES, NOUNS, RELATIONS, Noun
from demo_corpus.meaning import Name, Nominal, NounPhrase, Prepositional, Pronoun

# Nouns of these kinds may belong to somebody: Anna's old coat.
OWNED = "CRUVGXOB"
PLACES = "".join(words.LOCATIONS)
SIMPLE_COUNTS = range(2, 13)
COMPOUND_COUNTS = [count for count in range(20, 60) if count % 10 != 1]

SINGULAR = {"the": 50, "a": 28, "this": 7, "my": 4, "your": 3, "his": 4, "our": 4}
PLURAL = {"the": 40, "": 12, "many": 6, "some": 6, "all": 8, "this": 8, "our": 6}
ALL_NAMES = NAMES["f"] + NAMES["m"]
POSSESSIVES = ("my", "your", "his", "our")
UNCOUNTED = {"the": 46, "": 60, "this": 7, "my": 3, "our": 3}


def noun_phrase(draw: Draw, kinds: str, *, subject: bool = False) -> NounPhrase:
    """A noun of one of these kinds with a determiner and perhaps an adjective."""
    noun = draw.pick(NOUNS[draw.pick(kinds)])
    return described(draw, determined(draw, noun, subject))


def determined(draw: Draw, noun: Noun, subject: bool) -> NounPhrase:
    """The noun in the singular or plural, with a determiner that fits and perhaps a numeral."""
    if not noun.plural:
        weights = {key: weight for key, weight in UNCOUNTED.items() if key or not subject}
        return NounPhrase(noun, draw.weighted(weights))
    if noun.kind in PLACES or draw.chance(0.66):
        part = NounPhrase(noun, draw.weighted(SINGULAR | ({"every": 4} if subject else {})))
        # His woman would be his wife.
        married = noun.german in ("Mann", "Frau") and part.determiner in POSSESSIVES
        return replace(part, determiner="the") if married else part
    if draw.chance(0.35):
        count = draw.pick(SIMPLE_COUNTS if draw.chance(0.45) else COMPOUND_COUNTS)
        return NounPhrase(noun, draw.pick(["", "", "the"]), plural=True, count=count)
    return NounPhrase(noun, draw.weighted(PLURAL), plural=True)


def described(draw: Draw, part: NounPhrase) -> NounPhrase:
    """The phrase with an adjective, where one fits the noun, more often after an indefinite."""
    fitting = [adjective for adjective in ADJECTIVES if part.noun.kind in adjective.kinds]
    if not fitting or not draw.chance(0.5 if part.determiner in ("a", "") else 0.3):
        return part
    return replace(part, adjective=draw.pick(fitting))


def definite(draw: Draw, kinds: str) -> NounPhrase:
    """A singular with the definite article, as prepositions of place mostly take it."""
    return described(draw, NounPhrase(draw.pick(NOUNS[draw.pick(kinds)]), "the"))


def measured(draw: Draw, kinds: str) -> NounPhrase:
    """A cup of coffee, three glasses of water."""
    measure, contents = draw.pick([row for row in MEASURES if row[1][0].kind in kinds])
    part = determined(draw, measure, subject=False)
    if part.determiner not in ("a", "the", "this", "no"):
        part = replace(part, determiner="")
    if not part.plural and not part.determiner:
        part = replace(part, determiner="a")
    return replace(part, content=draw.pick(contents))


def object_phrase(draw: Draw, kinds: str) -> NounPhrase:
    """A noun phrase that may be measured, owned or, being a person, dressed."""
    if set("FD") & set(kinds) and draw.chance(0.3):
        return measured(draw, kinds)
    return owned(draw, noun_phrase(draw, kinds))


def owned(draw: Draw, part: NounPhrase) -> NounPhrase:
    """The phrase with an owner: das Auto von Anna, das Auto der Ärztin."""
    relation = part.noun.german in RELATIONS
    if part.determiner != "the" or part.count or not (relation or part.noun.kind in OWNED):
        return part
    if not draw.chance(0.4):
        return part
    if draw.chance(0.4):
        return replace(part, owner=Name(draw.pick(ALL_NAMES)))
    if draw.chance(0.4):
        owners = [noun for noun in NOUNS["P"] if noun.gender == "f"]
        return replace(part, owner=NounPhrase(draw.pick(owners), "the"))
    return replace(part, owner=NounPhrase(draw.pick(NOUNS["P"]), "the", plural=True))


def subject(draw: Draw, kinds: str, *, compound: bool) -> Nominal:
    """A noun phrase, a name or a pronoun.

    ich, du and ihr come with auxiliaries and modals only: few verb forms, each one often.
    """
    if "P" not in kinds or draw.chance(0.42):
        return owned(draw, noun_phrase(draw, kinds, subject=True))
    if draw.chance(0.5):
        return Name(draw.pick(ALL_NAMES))
    options = [Pronoun(3), Pronoun(3, gender="f"), Pronoun(1, True), Pronoun(3, True)]
    return draw.pick(options + [Pronoun(1), Pronoun(2), Pronoun(2, True)] * compound)


def object_pronoun(draw: Draw, agent: Nominal, dative: bool) -> Pronoun:
    """A pronoun for a person other than the subject; sie and ihr have too many readings."""
    options = [Pronoun(1), Pronoun(2), Pronoun(3), Pronoun(1, True), Pronoun(2, True)]
    options += [Pronoun(3, True)] * dative
    return draw.pick([option for option in options if option.person != agent.person])


def other_name(draw: Draw, agent: Nominal) -> Name:
    """The name of a person other than the subject."""
    return Name(draw.pick([name for name in ALL_NAMES if Name(name) != agent]))


def companion(draw: Draw, agent: Nominal) -> Prepositional:
    """With or without somebody."""
    preposition = draw.pick([("mit", "dat", "with"), ("ohne", "acc", "without")])
    inner = other_name(draw, agent) if draw.chance(0.4) else noun_phrase(draw, "P")
    return Prepositional(*preposition, inner)


def dressed(draw: Draw, part: NounPhrase) -> NounPhrase:
    """The man with the green hat."""
    return replace(part, attribute=Prepositional("mit", "dat", "with", definite(draw, "C")))

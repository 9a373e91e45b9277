"""German inflection: articles, adjective endings, noun forms and verb forms."""

from demo_corpus.lexicon import AUXILIARIES, Adjective, Noun, Verb
from demo_corpus.meaning import Pronoun

# Columns: masculine, feminine, neuter, plural.
DEFINITE = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
    "gen": ("des", "der", "des", "der"),
}
# The endings that show gender and case: on dieser and viele, and on an adjective after no article.
STRONG = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
}
# After an article that shows them already, the adjective does not repeat them.
WEAK = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en", "en", "en", "en"),
}
# The article ein, kein, mein has no ending in three places, where the adjective shows the gender.
INDEFINITE = {
    "nom": ("", "e", "", "e"),
    "acc": ("en", "e", "", "e"),
    "dat": ("em", "er", "em", "en"),
}
MIXED = {
    "nom": ("er", "e", "es", "en"),
    "acc": ("en", "e", "es", "en"),
    "dat": ("en", "en", "en", "en"),
}

# English determiner -> German stem and the family of endings on it.
DETERMINERS = {
    "this": "dies",
    "every": "jed",
    "many": "viel",
    "some": "einig",
    "all": "all",
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "his": "sein",
    "our": "unser",
}
INDEFINITE_WORDS = ("a", "no", "my", "your", "his", "our")
WEAKENING_WORDS = ("the", "this", "every", "all")

PRONOUNS = {
    "nom": ("ich", "du", "er", "wir", "ihr", "sie"),
    "acc": ("mich", "dich", "ihn", "uns", "euch", "sie"),
    "dat": ("mir", "dir", "ihm", "uns", "euch", "ihnen"),
}
REFLEXIVES = ("mich", "dich", "sich", "uns", "euch", "sich")


def slot(person: int, plural: bool) -> int:
    """Index into tables ordered ich, du, er, wir, ihr, sie."""
    return person - 1 + 3 * plural


def column(noun: Noun, plural: bool) -> int:
    """Index into tables ordered masculine, feminine, neuter, plural."""
    return 3 if plural else "mfn".index(noun.gender)


def determiner(english: str, case: str, index: int) -> str:
    """The German determiner in its case; empty for a bare noun."""
    if not english:
        return ""
    if english == "the":
        return DEFINITE[case][index]
    endings = INDEFINITE if english in INDEFINITE_WORDS else STRONG
    return DETERMINERS[english] + endings[case][index]


def adjective(word: Adjective, after: str, case: str, index: int) -> str:
    """The adjective with the ending that the determiner before it requires."""
    if after in WEAKENING_WORDS:
        return word.stem + WEAK[case][index]
    endings = MIXED if after in INDEFINITE_WORDS else STRONG
    return word.stem + endings[case][index]


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """The noun in its case: the dative plural takes n, weak masculines an ending throughout.

    The grammar uses the genitive of feminines and plurals only, where it has no ending.
    """
    if not plural:
        return noun.plural if noun.weak and case != "nom" else noun.german
    if case == "dat" and noun.plural[-1] not in "ns":
        return noun.plural + "n"
    return noun.plural


def pronoun(word: Pronoun, case: str) -> str:
    """The personal pronoun in its case."""
    if word.person == 3 and not word.plural and case == "nom":
        return {"m": "er", "f": "sie", "n": "es"}[word.gender]
    return PRONOUNS[case][slot(word.person, word.plural)]


def present(verb: Verb, person: int, plural: bool) -> str:
    """The finite present, without the prefix.

    The grammar uses second persons only of auxiliaries and modals.
    """
    if verb.infinitive == "sein":
        return AUXILIARIES["sein"][slot(person, plural)]
    if person == 2:
        raise ValueError(f"second person of {verb.lemma}: use a modal or the perfect")
    stem = verb.infinitive[: -2 if verb.infinitive.endswith("en") else -1]
    if plural:
        return verb.infinitive
    if person == 1:
        return stem[:-2] + "le" if stem.endswith("el") else stem + "e"
    # An e keeps the ending audible after t, d and consonant with n: arbeitet, öffnet, regnet.
    return verb.third or stem + ("et" if stem.endswith(("t", "d", "fn", "gn")) else "t")


def zu_infinitive(verb: Verb) -> str:
    """The infinitive with zu, which a separable prefix takes inside: aufzumachen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"

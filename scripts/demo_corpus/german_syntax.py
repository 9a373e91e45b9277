"""A meaning in German: verb second in main clauses, verb last in subordinate ones."""

from demo_corpus import german
from demo_corpus.lexicon import AUXILIARIES
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
from demo_corpus.phrase import Phrase, Word, comma, nest, phrase
from demo_corpus.words import CONTRACTIONS, numeral

# The order between the two verbal brackets: pronouns early, time before objects, objects before
# nicht, nicht before manner and place.
MIDDLE_FIELD = (
    "subject",
    "reflexive",
    "pronoun",
    "particle",
    "please",
    "aspect",
    "frequency",
    "time",
    "recipient",
    "object",
    "not",
    "liking",
    "manner",
    "oblique",
    "correlate",
    "companion",
    "transport",
    "place",
    "direction",
    "predicate",
    "standard",
)


def constituent(part: Constituent, case: str) -> Phrase:
    """Any part of a clause in German."""
    match part:
        case Pronoun():
            return [Word(german.pronoun(part, case), ("noun",))]
        case Name():
            return [Word(part.name, ("noun",))]
        case Question():
            return [Word(part.german, ("noun",))]
        case Adverb():
            return [Word(form, (str(i),)) for i, form in enumerate(part.german.split())]
        case Prepositional():
            return prepositional(part)
        case NounPhrase():
            return noun_phrase(part, case)


def noun_phrase(part: NounPhrase, case: str) -> Phrase:
    """Determiner, numeral, adjective and noun in agreement, then what describes them."""
    index = german.column(part.noun, part.plural)
    words = phrase(german.determiner(part.determiner, case, index), "det")
    if part.count:
        words += phrase(numeral(part.count)[0], "count")
    if part.adjective:
        form = german.adjective(part.adjective, part.determiner, case, index)
        words += phrase(form, "adjective")
    words += phrase(german.noun_form(part.noun, case, part.plural), "noun")
    if part.content:
        words += phrase(part.content.plural or part.content.german, "content")
    if isinstance(part.owner, Name):
        words += phrase(f"von {part.owner.name}", "owner")
    if isinstance(part.owner, NounPhrase):
        words += nest("owner", noun_phrase(part.owner, "gen"))
    if part.attribute:
        words += nest("attribute", prepositional(part.attribute))
    if part.relative:
        words = comma(words) + nest("relative", relative(part.relative, index))
    return words


def relative(part: Relative, index: int) -> Phrase:
    """The relative pronoun, which looks like the article, and a clause with its verb last."""
    case = "nom" if part.gap == "subject" else "acc"
    pronoun = Word(german.DEFINITE[case][index], ("pronoun",))
    return comma([pronoun, *verb_last(part.clause, omit=part.gap)])


def prepositional(part: Prepositional) -> Phrase:
    """The preposition and its noun phrase, contracted where German contracts them."""
    words = nest("inner", constituent(part.inner, part.case))
    contracted = CONTRACTIONS.get((part.german, words[0].form))
    if contracted:
        return [Word(contracted, ("prep", *words[0].paths)), *words[1:]]
    return [Word(part.german, ("prep",)), *words]


def case_of(clause: Clause, role: str) -> str:
    """The case of an argument: the verb governs its object's."""
    if role == "subject":
        return "nom"
    return "dat" if role == "recipient" or clause.verb.frame == "dative" else "acc"


def role_phrase(clause: Clause, role: str) -> Phrase:
    """One role of the clause as a phrase; empty where the clause does not fill it."""
    subject = clause.subject
    if role == "reflexive" and clause.verb.reflexive:
        return [Word(german.REFLEXIVES[german.slot(subject.person, subject.plural)])]
    if role == "not" and clause.negation == "not":
        return [Word("nicht", ("not",))]
    if role not in clause.parts:
        return []
    return nest(role, constituent(clause.parts[role], case_of(clause, role)))


def middle_field(clause: Clause, omit: tuple[str, ...]) -> Phrase:
    """Everything between the finite verb (or the conjunction) and the verbs at the end."""
    early = [
        role
        for role in ("object", "recipient")
        if isinstance(clause.parts.get(role), Pronoun) and role not in omit
    ]
    words: Phrase = []
    for role in MIDDLE_FIELD:
        if role == "pronoun":
            words += [word for moved in early for word in role_phrase(clause, moved)]
        elif role not in early and role not in omit:
            words += role_phrase(clause, role)
    return words


def finite_verb(clause: Clause) -> Word:
    """The verb that agrees with the subject, without a separable prefix."""
    person, plural = clause.subject.person, clause.subject.plural
    slot = german.slot(person, plural)
    if clause.modal:
        return Word(clause.modal.forms[slot], ("modal",))
    if clause.verb.frame == "copula":
        return Word(AUXILIARIES["war" if clause.past else "sein"][slot], ("tense",))
    if clause.tense is Tense.PERFECT:
        return Word(AUXILIARIES[clause.verb.auxiliary][slot], ("tense",))
    if clause.tense is Tense.FUTURE:
        return Word(AUXILIARIES["werden"][slot], ("tense",))
    return Word(german.present(clause.verb, person, plural), ("tense", "verb"))


def right_bracket(clause: Clause) -> Phrase:
    """The end of a main clause: the participle, the infinitive or the separated prefix."""
    verb = clause.verb
    if clause.modal or clause.tense is Tense.FUTURE:
        return phrase(verb.prefix + verb.infinitive, "verb")
    if verb.frame == "copula":
        return []
    if clause.tense is Tense.PERFECT:
        return phrase(verb.participle, "verb")
    return phrase(verb.prefix, "verb")


def verb_second(clause: Clause) -> Phrase:
    """A main clause: one constituent, the finite verb, the rest, the other verbs."""
    front = role_phrase(clause, clause.front)
    return [
        *front,
        finite_verb(clause),
        *middle_field(clause, (clause.front,)),
        *right_bracket(clause),
    ]


def verb_first(clause: Clause) -> Phrase:
    """A question that asks for yes or no."""
    return [finite_verb(clause), *middle_field(clause, ()), *right_bracket(clause)]


def verb_last(clause: Clause, omit: str = "") -> Phrase:
    """A subordinate clause without its conjunction; the finite verb takes its prefix back."""
    words = middle_field(clause, (omit,))
    finite, rest = finite_verb(clause), right_bracket(clause)
    if "verb" in finite.paths:
        return [*words, Word(clause.verb.prefix + finite.form, finite.paths)]
    return [*words, *rest, finite]


def infinitive_clause(clause: Clause) -> Phrase:
    """A clause without a subject, whose verb closes it with zu."""
    *zu, verb = phrase(german.zu_infinitive(clause.verb), "verb")
    paths = ("verb",) if zu else ("to", "verb")
    return [
        *middle_field(clause, ("subject",)),
        *(Word(word.form, ("to",)) for word in zu),
        Word(verb.form, paths),
    ]

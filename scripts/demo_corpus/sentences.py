"""Whole sentences: statements, questions, requests and sentences of several clauses."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from demo_corpus import english_syntax, german_syntax, words
from demo_corpus.lexicon import VERBS
from demo_corpus.meaning import (
    Adverb,
    Clause,
    Constituent,
    NounPhrase,
    Pronoun,
    Question,
    Tense,
)
from demo_corpus.phrase import Phrase, Word, close, comma, nest, phrase
from demo_corpus.sampler import Sampler


@dataclass(frozen=True)
class Sentence:
    """One meaning in both languages, and the clauses it consists of."""

    german: Phrase
    english: Phrase
    clauses: tuple[Clause, ...]


def statement(sampler: Sampler) -> Sentence:
    """Verb second in German, whatever comes first; subject first in English."""
    clause = sampler.clause()
    if sampler.chance(0.2):
        clause = sampler.described(clause)
    return _simple(clause)


def _simple(clause: Clause) -> Sentence:
    german = german_syntax.verb_second(clause)
    english = english_syntax.statement(clause)
    return Sentence(close(german, "."), close(english, "."), (clause,))


def _asked(sampler: Sampler, clause: Clause) -> Clause:
    parts = {role: part for role, part in clause.parts.items() if role != "particle"}
    if sampler.chance(0.25):
        parts["particle"] = Adverb(sampler.pick(words.QUESTION_PARTICLES), "")
    return replace(clause, parts=parts, front="subject")


def yes_no_question(sampler: Sampler) -> Sentence:
    """Verb first in German, auxiliary first in English."""
    clause = _asked(sampler, sampler.clause())
    german = german_syntax.verb_first(clause)
    return Sentence(close(german, "?"), close(english_syntax.question(clause), "?"), (clause,))


def adverb_question(sampler: Sampler) -> Sentence:
    """When, where or why?"""
    clause = _asked(sampler, sampler.clause())
    word, english, answer = sampler.pick(
        [("wann", "when", "time"), ("wo", "where", "place"), ("warum", "why", "")]
    )
    if word == "wann":
        clause = replace(clause, future=False)
    parts = {role: part for role, part in clause.parts.items() if role != answer}
    parts["asked"] = Adverb(word, f"{english}:0")
    clause = replace(clause, parts=parts, front="asked")
    german = german_syntax.verb_second(clause)
    wh = english_syntax.spoken(clause, "asked")
    return Sentence(
        close(german, "?"), close(wh + english_syntax.question(clause), "?"), (clause,)
    )


def who_question(sampler: Sampler) -> Sentence:
    """Who did it? The question word is the subject, so English needs no auxiliary."""
    clause = _asked(sampler, sampler.verbal_clause(sampler.pick(VERBS["transitive"])))
    clause = replace(clause, parts={**clause.parts, "subject": Question("wer", "who")})
    german = german_syntax.verb_second(clause)
    return Sentence(close(german, "?"), close(english_syntax.statement(clause), "?"), (clause,))


def what_question(sampler: Sampler) -> Sentence:
    """What did she buy? The question word is the object."""
    verbs = [verb for verb in VERBS["transitive"] if not set("PA") & set(verb.complement)]
    clause = _asked(sampler, sampler.verbal_clause(sampler.pick(verbs)))
    parts = {**clause.parts, "object": Question("was", "what")}
    negation = "not" if clause.negation else ""
    clause = replace(clause, parts=parts, front="object", negation=negation)
    german = german_syntax.verb_second(clause)
    wh = english_syntax.spoken(clause, "object")
    english = wh + english_syntax.question(clause, omit="object")
    return Sentence(close(german, "?"), close(english, "?"), (clause,))


def request(sampler: Sampler) -> Sentence:
    """Machen Sie bitte die Tür auf! Please open the door!"""
    frame = sampler.pick(["transitive", "transitive", "ditransitive", "dative", "directional"])
    verb = sampler.pick(VERBS[frame])
    subject = Pronoun(3, plural=True)
    parts: dict[str, Constituent] = {"subject": subject, "particle": Adverb("bitte", "")}
    clause = Clause(verb, parts | sampler.arguments(verb, Pronoun(2)))
    negation = "not" if sampler.chance(0.15) else ""
    target = clause.parts.get("object")
    if isinstance(target, NounPhrase) and target.determiner in ("", "a"):
        negation = ""
    clause = replace(clause, negation=negation)
    german = [german_syntax.finite_verb(clause), Word("Sie")]
    german += german_syntax.middle_field(clause, ("subject",))
    german += german_syntax.right_bracket(clause)
    group = english_syntax.VerbGroup([], phrase(verb.english, "verb"))
    english = phrase("please", "particle.0") + phrase("do" if negation else "")
    english += english_syntax.predicate(clause, group, omit="subject")
    return Sentence(close(german, "!"), close(english, "!"), (clause,))


def existence(sampler: Sampler) -> Sentence:
    """Es gibt einen Hund im Garten: there is a dog in the garden."""
    thing = sampler.noun_phrase("PAFCREUVIGNBX")
    if thing.determiner not in ("a", "", "many", "some"):
        thing = replace(thing, determiner="" if thing.plural or not thing.noun.plural else "a")
    place = sampler.place(words.LOCATIONS)
    where = nest("place", german_syntax.constituent(place, "dat"))
    what = nest("object", german_syntax.constituent(thing, "acc"))
    gibt, es = phrase("gibt", "tense"), phrase("es", "there")
    german = where + gibt + es + what if sampler.chance(0.5) else es + gibt + what + where
    english = phrase("there", "there") + phrase("are" if thing.plural else "is", "tense")
    english += nest("object", english_syntax.constituent(thing))
    english += nest("place", english_syntax.constituent(place))
    return Sentence(close(german, "."), close(english, "."), ())


def weather(sampler: Sampler) -> Clause:
    """It rains."""
    verb, tense = sampler.pick(VERBS["weather"]), sampler.pick([Tense.PRESENT, Tense.PERFECT])
    return Clause(verb, {"subject": Pronoun(3, gender="n")}, tense)


def subordination(sampler: Sampler) -> Sentence:
    """A main clause with a reason, a condition or a time, which German often puts first.

    The subordinate clause then takes the first place, and the finite verb follows at once.
    """
    main = sampler.clause()
    conjunction = sampler.pick(
        ["weil", "weil", "obwohl", "wenn", "falls", "während", "bevor", "nachdem"]
    )
    sub = weather(sampler) if sampler.chance(0.12) else sampler.clause(plain=sampler.chance(0.6))
    if conjunction == "nachdem" and sub.verb.frame != "copula":
        sub = replace(sub, tense=Tense.PERFECT, modal=None, future=False, past=False)
        parts = {r: p for r, p in sub.parts.items() if r not in ("aspect", "liking", "time")}
        sub = replace(sub, parts=parts, front="subject")
    last = nest("sub", german_syntax.verb_last(sub))
    last = [Word(conjunction, ("conjunction",)), *last]
    english = nest("main", english_syntax.statement(main))
    english += phrase(words.SUBORDINATORS[conjunction], "conjunction")
    english += nest("sub", english_syntax.statement(sub))
    if sampler.chance(0.5):
        main = replace(main, front="subject")
        rest = [german_syntax.finite_verb(main), *german_syntax.middle_field(main, ())]
        rest += german_syntax.right_bracket(main)
        german = comma(last) + nest("main", rest)
    else:
        german = comma(nest("main", german_syntax.verb_second(main))) + last
    return Sentence(close(german, "."), close(english, "."), (main, sub))


def reported(sampler: Sampler) -> Sentence:
    """She says that, he wonders whether: the finite verb of the reported clause is last."""
    main = sampler.verbal_clause(sampler.pick(VERBS["clausal"]), plain=True)
    parts = {role: part for role, part in main.parts.items() if role not in ("place", "manner")}
    main = replace(main, parts=parts, front="subject")
    sub = sampler.clause()
    conjunction = main.verb.complement
    german = comma(nest("main", german_syntax.verb_second(main)))
    german += phrase(conjunction, "conjunction") + nest("sub", german_syntax.verb_last(sub))
    english = nest("main", english_syntax.statement(main))
    english += phrase(words.SUBORDINATORS[conjunction], "conjunction")
    english += nest("sub", english_syntax.statement(sub))
    return Sentence(close(german, "."), close(english, "."), (main, sub))


def intention(sampler: Sampler) -> Sentence:
    """An infinitive with zu, which closes its clause and opens the English one."""
    purpose = sampler.chance(0.4)
    frame = "directional" if purpose else "infinitival"
    main = sampler.verbal_clause(sampler.pick(VERBS[frame]), plain=True)
    verb = sampler.pick(VERBS[sampler.weighted({"transitive": 6, "ditransitive": 2, "dative": 1})])
    parts = {"subject": main.subject} | sampler.arguments(verb, main.subject)
    sub = Clause(verb, parts)
    if not purpose:
        keep = {"subject": main.subject}
        main = replace(main, parts=keep, front="subject")
    german = comma(nest("main", german_syntax.verb_second(main)))
    german += phrase("um" if purpose else "", "purpose")
    german += nest("sub", german_syntax.infinitive_clause(sub))
    english = nest("main", english_syntax.statement(main))
    english += phrase("in order" if purpose else "", "purpose")
    english += nest("sub", english_syntax.infinitive_clause(sub))
    return Sentence(close(german, "."), close(english, "."), (main, sub))


def coordination(sampler: Sampler) -> Sentence:
    """Two main clauses, each with its verb second."""
    first, second = sampler.clause(plain=sampler.chance(0.5)), sampler.clause(plain=True)
    conjunction = sampler.pick(list(words.COORDINATORS))
    german = nest("first", german_syntax.verb_second(first))
    german = comma(german) if conjunction == "aber" else german
    german += phrase(conjunction, "conjunction")
    german += nest("second", german_syntax.verb_second(second))
    english = nest("first", english_syntax.statement(first))
    english += phrase(words.COORDINATORS[conjunction], "conjunction")
    english += nest("second", english_syntax.statement(second))
    return Sentence(close(german, "."), close(english, "."), (first, second))


KINDS: dict[Callable[[Sampler], Sentence], int] = {
    statement: 40,
    yes_no_question: 6,
    adverb_question: 5,
    who_question: 2,
    what_question: 2,
    request: 4,
    existence: 3,
    subordination: 18,
    reported: 9,
    intention: 8,
    coordination: 6,
}


def sentence(sampler: Sampler) -> Sentence:
    """A sentence of any kind."""
    return sampler.weighted(KINDS)(sampler)


"""Whole sentences: statements, questions, requests and sentences of several clauses."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from demo_corpus import draw_adverbials, draw_clauses, words
from demo_corpus import english_syntax as english
from demo_corpus import german_syntax as german
from demo_corpus.draw import Draw
from demo_corpus.draw_nominals import noun_phrase
from demo_corpus.lexicon import VERBS
from demo_corpus.meaning import Adverb, Clause, NounPhrase, Pronoun, Question, Tense
from demo_corpus.phrase import Phrase, Word, close, comma, nest, phrase


@dataclass(frozen=True)
class Sentence:
    """One meaning in both languages, and the clauses it consists of."""

    german: Phrase
    english: Phrase
    clauses: tuple[Clause, ...]


def _ended(mark: str, source: Phrase, target: Phrase, *clauses: Clause) -> Sentence:
    return Sentence(close(source, mark), close(target, mark), clauses)


def statement(draw: Draw) -> Sentence:
    """Verb second in German, whatever comes first; subject first in English."""
    told = draw_clauses.clause(draw)
    if draw.chance(0.25):
        told = draw_clauses.with_relative(draw, told)
    return _ended(".", german.verb_second(told), english.statement(told), told)


def _asked(draw: Draw, told: Clause) -> Clause:
    parts = {role: part for role, part in told.parts.items() if role != "particle"}
    if draw.chance(0.4):
        parts["particle"] = Adverb(draw.pick(words.QUESTION_PARTICLES), "")
    return replace(told, parts=parts, front="subject")


def yes_no_question(draw: Draw) -> Sentence:
    """Verb first in German, auxiliary first in English."""
    asked = _asked(draw, draw_clauses.clause(draw))
    return _ended("?", german.verb_first(asked), english.question(asked), asked)


def adverb_question(draw: Draw) -> Sentence:
    """When, where or why?"""
    word, translation, answer = draw.pick(
        [("wann", "when", "time"), ("wo", "where", "place"), ("warum", "why", "")]
    )
    told = _until(
        draw_clauses.clause, draw, lambda made: word == "warum" or made.verb.frame != "copula"
    )
    asked = _asked(draw, told)
    parts = {role: part for role, part in asked.parts.items() if role != answer}
    parts["asked"] = Adverb(word, f"{translation}:0")
    asked = replace(asked, parts=parts, front="asked")
    target = english.role_phrase(asked, "asked") + english.question(asked)
    return _ended("?", german.verb_second(asked), target, asked)


def who_question(draw: Draw) -> Sentence:
    """Who did it? The question word is the subject, so English needs no auxiliary."""
    verb = draw_clauses.verb_of(draw, "transitive", personal=True)
    asked = _asked(draw, draw_clauses.verbal(draw, verb))
    asked = replace(asked, parts={**asked.parts, "subject": Question("wer", "who")})
    return _ended("?", german.verb_second(asked), english.statement(asked), asked)


def what_question(draw: Draw) -> Sentence:
    """What did she buy? The question word is the object."""
    verbs = [verb for verb in VERBS["transitive"] if set("PA").isdisjoint(verb.complement)]
    asked = _asked(draw, draw_clauses.verbal(draw, draw.pick(verbs)))
    parts = {**asked.parts, "object": Question("was", "what")}
    negation = "not" if asked.negation else ""
    asked = replace(asked, parts=parts, front="object", negation=negation)
    target = english.role_phrase(asked, "object") + english.question(asked, omit="object")
    return _ended("?", german.verb_second(asked), target, asked)


def request(draw: Draw) -> Sentence:
    """Machen Sie bitte die Tür auf! Please open the door!"""
    frame = draw.pick(["transitive", "transitive", "ditransitive", "dative", "directional"])
    verb = draw_clauses.verb_of(draw, frame, personal=True)
    parts: draw_clauses.Parts = {"subject": Pronoun(3, plural=True)}
    parts |= draw_clauses.arguments(draw, verb, Pronoun(2))
    parts["please"] = Adverb("bitte", "please:0")
    target = parts.get("object")
    definite = not isinstance(target, NounPhrase) or target.determiner not in ("", "a")
    negation = "not" if definite and draw.chance(0.15) else ""
    if not negation and draw.chance(0.4):
        parts["particle"] = Adverb(draw.pick(words.REQUEST_PARTICLES), "")
    asked = Clause(verb, parts, negation=negation)
    # The polite Sie is no word of the English request.
    source = [german.finite_verb(asked), Word("Sie"), *german.middle_field(asked, ("subject",))]
    translation = english.role_phrase(asked, "please") + phrase("do" if negation else "")
    translation += english.predicate(asked, english.base_verb(asked))
    return _ended("!", source + german.right_bracket(asked), translation, asked)


def existence(draw: Draw) -> Sentence:
    """Es gibt einen Hund im Garten: there is a dog in the garden."""
    thing = noun_phrase(draw, "PPAAFCREUVIGNBX")
    if thing.determiner not in ("a", "", "many", "some"):
        countable = thing.noun.plural and not thing.plural
        thing = replace(thing, determiner="a" if countable else "")
    place = draw_adverbials.place(draw, words.LOCATIONS)
    where = nest("place", german.constituent(place, "dat"))
    what = nest("object", german.constituent(thing, "acc"))
    gibt, es = phrase("gibt", "tense"), phrase("es", "there")
    source = where + gibt + es + what if draw.chance(0.5) else es + gibt + what + where
    target = phrase("there", "there") + phrase("are" if thing.plural else "is", "tense")
    target += nest("object", english.constituent(thing))
    target += nest("place", english.constituent(place))
    return _ended(".", source, target)


def weather(draw: Draw) -> Clause:
    """It rains."""
    tense = draw.pick([Tense.PRESENT, Tense.PERFECT])
    return Clause(draw.pick(VERBS["weather"]), {"subject": Pronoun(3, gender="n")}, tense)


def is_past(told: Clause) -> bool:
    """Is the clause about the past?"""
    return told.past or told.tense is Tense.PERFECT or bool(told.modal and told.modal.past)


def is_future(told: Clause) -> bool:
    """Does English say it with will? It does not after when and if."""
    time = told.parts.get("time")
    return told.tense is Tense.FUTURE or (isinstance(time, Adverb) and time.future)


def _until(make: Callable[[Draw], Clause], draw: Draw, accept: Callable[[Clause], bool]) -> Clause:
    while not accept(made := make(draw)):
        pass
    return made


def _circumstance(draw: Draw, conjunction: str, past: bool) -> Clause:
    """A subordinate clause in a tense that suits its conjunction and the main clause."""
    make = weather if draw.chance(0.12) else draw_clauses.clause
    # Nothing comes before or after what does not happen.
    sequence = conjunction in ("bevor", "nachdem")

    def fits(made: Clause) -> bool:
        if sequence and made.negation:
            return False
        if conjunction == "nachdem":
            return made.tense is Tense.PERFECT
        return is_past(made) == past and not is_future(made)

    return _until(make, draw, fits)


def subordination(draw: Draw) -> Sentence:
    """A main clause with a reason, a condition or a time, which German often puts first.

    The subordinate clause then takes the first place, and the finite verb follows at once, after
    wenn and falls perhaps with a dann that sums the clause up.
    """
    conjunction = draw.pick(
        ["weil", "weil", "obwohl", "wenn", "falls", "während", "bevor", "nachdem"]
    )
    conditional = conjunction in ("wenn", "falls")
    main = _until(draw_clauses.clause, draw, lambda made: not (conditional and is_past(made)))
    sub = _circumstance(draw, conjunction, is_past(main))
    source = phrase(conjunction, "conjunction") + nest("sub", german.verb_last(sub))
    target = nest("main", english.statement(main))
    target += phrase(words.SUBORDINATORS[conjunction], "conjunction")
    target += nest("sub", english.statement(sub))
    if draw.chance(0.5):
        resumed = phrase("dann" if conditional and draw.chance(0.6) else "")
        source = comma(source) + resumed + nest("main", german.verb_first(main))
    else:
        source = comma(nest("main", german.verb_second(main))) + source
    return _ended(".", source, target, main, sub)


def reported(draw: Draw) -> Sentence:
    """She says that, he wonders whether: the finite verb of the reported clause is last."""
    main = draw_clauses.core(draw, draw_clauses.verb_of(draw, "clausal"))
    correlate, _, conjunction = main.verb.complement.rpartition("+")
    if correlate:
        main = replace(main, parts={**main.parts, "correlate": Adverb(correlate, "")})
    sub = draw_clauses.clause(draw)
    source = comma(nest("main", german.verb_second(main)))
    source += phrase(conjunction, "conjunction") + nest("sub", german.verb_last(sub))
    target = nest("main", english.statement(main))
    target += phrase(words.SUBORDINATORS[conjunction], "conjunction")
    target += nest("sub", english.statement(sub))
    return _ended(".", source, target, main, sub)


def intention(draw: Draw) -> Sentence:
    """An infinitive with zu, which closes its clause and opens the English one."""
    purpose = draw.chance(0.4)
    if purpose:
        main = draw_clauses.verbal(draw, draw_clauses.verb_of(draw, "directional"))
    else:
        main = draw_clauses.core(draw, draw_clauses.verb_of(draw, "infinitival"))
    frame = draw.weighted({"transitive": 6, "ditransitive": 2, "dative": 1})
    verb = draw_clauses.verb_of(draw, frame, personal=True)
    parts: draw_clauses.Parts = {"subject": main.subject}
    sub = Clause(verb, parts | draw_clauses.arguments(draw, verb, main.subject))
    source = comma(nest("main", german.verb_second(main)))
    source += phrase("um" if purpose else "", "purpose")
    source += nest("sub", german.infinitive_clause(sub))
    target = nest("main", english.statement(main))
    target += phrase("in order" if purpose else "", "purpose")
    target += nest("sub", english.infinitive_clause(sub))
    return _ended(".", source, target, main, sub)


def coordination(draw: Draw) -> Sentence:
    """Two main clauses, each with its verb second."""
    first = draw_clauses.clause(draw)
    second = _until(draw_clauses.clause, draw, lambda made: is_past(made) == is_past(first))
    conjunction = draw.pick(list(words.COORDINATORS))
    source = nest("first", german.verb_second(first))
    source = comma(source) if conjunction == "aber" else source
    source += phrase(conjunction, "conjunction") + nest("second", german.verb_second(second))
    target = nest("first", english.statement(first))
    target += phrase(words.COORDINATORS[conjunction], "conjunction")
    target += nest("second", english.statement(second))
    return _ended(".", source, target, first, second)


KINDS: dict[Callable[[Draw], Sentence], int] = {
    statement: 38,
    yes_no_question: 12,
    adverb_question: 7,
    who_question: 2,
    what_question: 2,
    request: 5,
    existence: 3,
    subordination: 24,
    reported: 12,
    intention: 9,
    coordination: 5,
}


def sentence(draw: Draw) -> Sentence:
    """A sentence of any kind."""
    return draw.weighted(KINDS)(draw)

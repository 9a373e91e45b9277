"""The grammar of the demonstration corpus against grammars of German and English."""

from dataclasses import replace

import pytest
from demo_corpus import english, english_syntax, german, german_syntax
from demo_corpus.lexicon import ADJECTIVES, NOUNS, VERBS, Noun, Verb
from demo_corpus.meaning import Adverb, Clause, Name, NounPhrase, Prepositional, Pronoun, Tense
from demo_corpus.phrase import Phrase, Word, close, links, text


def noun(singular: str) -> Noun:
    return next(noun for nouns in NOUNS.values() for noun in nouns if noun.german == singular)


def verb(lemma: str, frame: str = "transitive") -> Verb:
    return next(verb for verb in VERBS[frame] if verb.lemma == lemma)


def forms(words: Phrase) -> str:
    return " ".join(word.form for word in words)


OLD = next(adjective for adjective in ADJECTIVES if adjective.german == "alt")
DOOR = NounPhrase(noun("Tür"), "the", adjective=OLD)
OPENS = Clause(verb("aufmachen"), {"subject": Name("Anna"), "object": DOOR})


@pytest.mark.parametrize(
    ("singular", "determiner", "expected"),
    [
        ("Mann", "the", "der alte Mann, den alten Mann, dem alten Mann"),
        ("Mann", "a", "ein alter Mann, einen alten Mann, einem alten Mann"),
        ("Frau", "this", "diese alte Frau, diese alte Frau, dieser alten Frau"),
        ("Haus", "my", "mein altes Haus, mein altes Haus, meinem alten Haus"),
        ("Student", "the", "der alte Student, den alten Studenten, dem alten Studenten"),
    ],
)
def test_article_adjective_and_noun_agree_in_the_singular(
    singular: str, determiner: str, expected: str
) -> None:
    part = NounPhrase(noun(singular), determiner, adjective=OLD)
    cases = [forms(german_syntax.noun_phrase(part, case)) for case in ("nom", "acc", "dat")]
    assert ", ".join(cases) == expected


@pytest.mark.parametrize(
    ("determiner", "expected"),
    [
        ("the", "die alten Kinder, die alten Kinder, den alten Kindern"),
        ("", "alte Kinder, alte Kinder, alten Kindern"),
        ("many", "viele alte Kinder, viele alte Kinder, vielen alten Kindern"),
        ("no", "keine alten Kinder, keine alten Kinder, keinen alten Kindern"),
    ],
)
def test_article_adjective_and_noun_agree_in_the_plural(determiner: str, expected: str) -> None:
    part = NounPhrase(noun("Kind"), determiner, plural=True, adjective=OLD)
    cases = [forms(german_syntax.noun_phrase(part, case)) for case in ("nom", "acc", "dat")]
    assert ", ".join(cases) == expected


@pytest.mark.parametrize(
    ("lemma", "frame", "expected"),
    [
        ("arbeiten", "intransitive", "arbeitet"),
        ("schlafen", "intransitive", "schläft"),
        ("füttern", "transitive", "füttert"),
        ("einladen", "transitive", "lädt"),
        ("regnen", "weather", "regnet"),
    ],
)
def test_the_third_person_singular_is_the_one_in_the_dictionary(
    lemma: str, frame: str, expected: str
) -> None:
    assert german.present(verb(lemma, frame), person=3, plural=False) == expected


@pytest.mark.parametrize(
    ("function", "lemma", "expected"),
    [
        (english.third_person, "carry", "carries"),
        (english.third_person, "play", "plays"),
        (english.third_person, "watch", "watches"),
        (english.third_person, "go", "goes"),
        (english.past_tense, "plan", "planned"),
        (english.past_tense, "open", "opened"),
        (english.past_tense, "travel", "travelled"),
        (english.past_tense, "try", "tried"),
        (english.past_tense, "admire", "admired"),
        (english.progressive, "run", "running"),
        (english.progressive, "take", "taking"),
        (english.progressive, "lie", "lying"),
        (english.progressive, "wait", "waiting"),
        (english.progressive, "see", "seeing"),
    ],
)
def test_english_verbs_are_spelt_as_in_the_dictionary(function, lemma: str, expected: str) -> None:
    assert function(lemma) == expected


def test_a_separable_prefix_stands_last_in_a_main_clause_and_joins_in_a_subordinate_one() -> None:
    assert forms(german_syntax.verb_second(OPENS)) == "Anna macht die alte Tür auf"
    assert forms(german_syntax.verb_last(OPENS)) == "Anna die alte Tür aufmacht"
    assert forms(german_syntax.infinitive_clause(OPENS)) == "die alte Tür aufzumachen"
    perfect = replace(OPENS, tense=Tense.PERFECT)
    assert forms(german_syntax.verb_second(perfect)) == "Anna hat die alte Tür aufgemacht"
    assert forms(german_syntax.verb_last(perfect)) == "Anna die alte Tür aufgemacht hat"


def test_the_finite_verb_is_second_and_english_keeps_its_order() -> None:
    parts = {**OPENS.parts, "time": Adverb("heute", "today:0")}
    clause = replace(OPENS, parts=parts, front="time", negation="not")
    source = german_syntax.verb_second(clause)
    target = english_syntax.statement(clause)
    assert forms(source) == "heute macht Anna die alte Tür nicht auf"
    assert forms(target) == "Anna does not open the old door today"
    # heute-today, macht-open, Anna-Anna, die-the, alte-old, Tür-door, nicht-not, auf-open.
    assert links(source, target) == [
        (0, 7), (1, 3), (2, 0), (3, 4), (4, 5), (5, 6), (6, 2), (7, 3),
    ]  # fmt: skip


def test_both_parts_of_the_perfect_are_linked_to_the_simple_past() -> None:
    clause = replace(OPENS, tense=Tense.PERFECT)
    source, target = german_syntax.verb_second(clause), english_syntax.statement(clause)
    assert forms(target) == "Anna opened the old door"
    assert links(source, target) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 1)]


def test_a_contraction_and_a_compound_are_linked_to_two_words() -> None:
    place = Prepositional("in", "dat", "in", NounPhrase(noun("Garten"), "the"))
    clause = Clause(
        verb("putzen"),
        {"subject": Pronoun(1, True), "object": NounPhrase(noun("Haustür"), "a"), "place": place},
    )
    source, target = german_syntax.verb_second(clause), english_syntax.statement(clause)
    assert forms(source) == "wir putzen eine Haustür im Garten"
    assert forms(target) == "we clean a front door in the garden"
    assert links(source, target) == [
        (0, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 5), (4, 6), (5, 7),
    ]  # fmt: skip


def test_a_pronoun_stands_before_the_particle_of_an_english_verb() -> None:
    clause = Clause(verb("abholen"), {"subject": Name("Max"), "object": Pronoun(1, True)})
    assert forms(english_syntax.statement(clause)) == "Max picks us up"
    assert forms(english_syntax.question(clause)) == "does Max pick us up"


def test_a_word_that_german_does_not_say_has_no_link() -> None:
    mass = NounPhrase(noun("Milch"), "")
    clause = Clause(verb("trinken"), {"subject": Name("Eva"), "object": mass})
    source, target = german_syntax.verb_second(clause), english_syntax.statement(clause)
    assert forms(target) == "Eva drinks some milk"
    assert links(source, target) == [(0, 0), (1, 1), (2, 3)]


def test_a_mark_takes_the_place_of_a_comma_and_the_first_word_its_capital() -> None:
    assert text(close([Word("er"), Word("schläft,")], ".")) == "Er schläft."

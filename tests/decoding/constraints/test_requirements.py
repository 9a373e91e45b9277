"""Requirements on a translation, read from JSON."""

import re

import pytest

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.decoding.constraints.glossary import Glossary
from seq2seq.decoding.constraints.lexical import Constraint, Term, Vocabulary
from seq2seq.decoding.constraints.placeholders import MAX_CHARACTERS, Placeholders
from seq2seq.decoding.constraints.request import Requirements, Rules, parse_request
from seq2seq.text.tokenization.words import CharacterLevel
from seq2seq.translation.request import TranslationRequest

TOKENIZER = CharacterLevel().train(["ab cd{}"] * 3)
BRACES = Rules(placeholders=Placeholders(re.compile(r"\{\w+\}")))


def test_a_json_object_becomes_a_request() -> None:
    line = '{"text": "A", "must": [["house", "houses"], "green"], "must_not": ["x"], "prefix": "B"}'
    request = TranslationRequest(**parse_request(line))
    assert (request.text, request.prefix) == ("A", "B")
    assert (request.must, request.must_not) == ((("house", "houses"), ("green",)), ("x",))
    blank = TranslationRequest(**parse_request('{"text": ""}'))
    assert (blank.text, blank.prefix, blank.must, blank.must_not) == ("", "", (), ())


@pytest.mark.parametrize(
    "line, message",
    [
        ("A dog.", "not JSON"),
        ("[1]", "not an object with a text"),
        ('{"text": 1}', "text and prefix should be texts"),
        ('{"text": "A", "musst": []}', "unknown key 'musst'. Known: text, prefix, must, must_not"),
        ('{"text": "A", "must": "house"}', "must should be a list"),
        ('{"text": "A", "must": [1]}', "lists of words"),
        ('{"text": "A", "must": [[]]}', "a group of must is empty"),
        ('{"text": "A", "must_not": [" "]}', "lists of words"),
        ('{"text": "A", "prefix": null}', "text and prefix should be texts"),
    ],
)
def test_a_wrong_line_is_refused_with_the_reason(line: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        TranslationRequest(**parse_request(line))


def test_a_word_that_is_required_twice_must_occur_twice() -> None:
    terms = Rules().terms("", must=(("a",), ("b",), ("a",)), must_not=("c",))
    assert terms == [Term(("a",), 2), Term(("b",)), Term(("c",), 0, 0)]


def test_a_glossary_term_that_is_also_required_counts_once() -> None:
    rules = Rules(Glossary([("dog", ("Hund",)), ("DOG", ("Hund",))], same_case=False))
    assert rules.terms("A dog.", must=(("Hund",),)) == [Term(("Hund",))]


def test_all_parts_of_a_text_share_its_banned_words() -> None:
    vocabulary = Vocabulary(TOKENIZER, False)
    asked = Requirements(BRACES, vocabulary, "x {a}", "ab", (("b",),), ("c",))
    must, must_not = Term(("b",)), Term(("c",), 0, 0)
    copied, at_most = Term(("{a}",)), Term(("{a}",), 0, 1, anywhere=True)
    assert asked.constraint() == Constraint(
        (must, must_not, copied, at_most), asked.beginning, False
    )
    assert asked.constraint(1) == Constraint((must_not, at_most._replace(maximum=0)), b"", False)
    assert Requirements(Rules(), vocabulary, "x").constraint() is None
    with pytest.raises(ConfigError, match="the prefix has 3 pieces"):
        Requirements(Rules(), vocabulary, "x", "abc", max_length=4)


def test_terms_that_no_translation_satisfies_are_dropped_and_named() -> None:
    asked = Requirements(
        BRACES, Vocabulary(TOKENIZER, False), "{d}", "a ", (("b", "c"), ("☃",)), ("a", "c")
    )
    assert asked.dropped == ["☃"]
    assert asked.drop_unsatisfied(None) and asked.dropped == ["☃", "a"]
    assert sorted(["ab", "b {d}{a}", "b {d}"], key=asked.rank) == ["b {d}", "b {d}{a}", "ab"]
    assert asked.find_unsatisfied("ab") == ("☃", "a", "b", "{d}")
    assert asked.drop_unsatisfied("b") and asked.dropped == ["☃", "a", "{d}"]
    assert not asked.drop_unsatisfied("b")


def test_a_placeholder_too_long_for_a_search_is_named_if_it_is_missing() -> None:
    name = f"{{{'a' * MAX_CHARACTERS}}}"
    asked = Requirements(BRACES, Vocabulary(TOKENIZER, False), name)
    assert asked.terms == [] and asked.constraint() is None
    assert asked.find_unsatisfied("ab") == (name,) and asked.find_unsatisfied(f"a {name}") == ()

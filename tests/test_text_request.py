"""What is asked of a translation, read from JSON, glossaries and patterns."""

import re
import signal
import threading
import time
from pathlib import Path

import pytest

from seq2seq.constraints.lexical import Term
from seq2seq.constraints.request import (
    MOST_CHARACTERS,
    MOST_KEPT,
    PLACEHOLDERS,
    Rules,
    TextRequest,
    read_glossary,
)
from seq2seq.environment import limit_time
from seq2seq.errors import DataError, Seq2SeqError


def test_a_json_object_becomes_a_request() -> None:
    line = '{"text": "A", "must": [["house", "houses"], "green"], "must_not": ["x"], "prefix": "B"}'
    expected = TextRequest("A", "B", (("house", "houses"), ("green",)), ("x",))
    assert TextRequest.from_json(line) == expected
    assert TextRequest.from_json('{"text": ""}') == TextRequest("")


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
def test_another_line_is_refused_in_words(line: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        TextRequest.from_json(line)


def test_terms_of_a_glossary_are_used_where_the_source_has_them(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\tHunde\n\ngreen house\tGewächshaus\n", encoding="utf-8")
    glossary = read_glossary(path)
    assert glossary == [("dog", ("Hund", "Hunde")), ("green house", ("Gewächshaus",))]
    rules = Rules(glossary)
    assert rules.terms(TextRequest("A dog, a dogma.")) == [Term(("Hund", "Hunde"))]
    assert rules.terms(TextRequest("A Dog in a greenhouse.")) == []
    anyhow = Rules(glossary, same_case=False)
    assert anyhow.terms(TextRequest("The Green House.")) == [Term(("Gewächshaus",))]
    path.write_text("dog\tHund\ncat\tKatze\ndog\tHund\tDogge\nDog\tRüde\n", encoding="utf-8")
    assert read_glossary(path) == [
        ("dog", ("Hund", "Dogge")),
        ("cat", ("Katze",)),
        ("Dog", ("Rüde",)),
    ]
    anyhow = Rules(read_glossary(path, same_case=False), same_case=False)
    assert anyhow.terms(TextRequest("A DOG.")) == [Term(("Hund", "Dogge", "Rüde"))]
    path.write_text('a\\tb\tC:\\n\n&amp;\t"und"\n', encoding="utf-8")
    assert read_glossary(path) == [("a\\tb", ("C:\\n",)), ("&amp;", ('"und"',))]
    path.write_text("dog\tHund\nhouse\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 'house' should be a term of the source, a tab"):
        read_glossary(path)


@pytest.mark.parametrize(
    "text, kept",
    [
        ("Hello {name}, you have %d of %(total)s.", ["{name}", "%d", "%(total)s"]),
        (
            "See https://example.org/a?b=1. Or http://x.y",
            ["https://example.org/a?b=1", "http://x.y"],
        ),
        ("Write to a.b+c@example.co.uk, please.", ["a.b+c@example.co.uk"]),
        ('A <b class="x">bold</b> word<br/>', ['<b class="x">', "</b>", "<br/>"]),
        ("5 < 6 and 100 % of {two words}", []),
    ],
)
def test_placeholders_are_found(text: str, kept: list[str]) -> None:
    rules = Rules(keep=re.compile(PLACEHOLDERS))
    expected = [[Term((each,)), Term((each,), 0, 1, anywhere=True)] for each in kept]
    assert rules.terms(TextRequest(text)) == [term for terms in expected for term in terms]


def test_what_is_asked_for_twice_is_there_twice() -> None:
    rules = Rules(keep=re.compile(PLACEHOLDERS))
    assert rules.terms(TextRequest("%s and %s")) == [
        Term(("%s",), 2),
        Term(("%s",), 0, 2, anywhere=True),
    ]
    contained = TextRequest("http://x.y and http://x.y/z")
    assert [term.minimum for term in rules.terms(contained)] == [2, 0, 1, 0]
    inside = Rules(keep=re.compile("o+")).terms(TextRequest("book"))
    assert inside == [Term(("oo",), 1, 1, anywhere=True)]
    twice = TextRequest("", must=(("a",), ("b",), ("a",)), must_not=("c",))
    assert Rules().terms(twice) == [Term(("a",), 2), Term(("b",)), Term(("c",), 0, 0)]


def test_the_first_placeholders_are_required_and_the_others_named() -> None:
    rules = Rules(keep=re.compile(PLACEHOLDERS))
    text = " ".join(f"{{n{i}}}" for i in range(300)) + " {n299}"
    required, others = rules.copies(text)
    assert required == [f"{{n{i}}}" for i in range(MOST_KEPT)]
    assert others == {f"{{n{i}}}": 1 + (i == 299) for i in range(MOST_KEPT, 300)}
    assert len(rules.terms(TextRequest(text))) == 2 * MOST_KEPT
    long = "{" + "a" * MOST_CHARACTERS + "}"
    assert rules.copies(f"{long} %s") == (["%s"], {long: 1})


def test_a_pattern_that_takes_too_long_is_named() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    began = time.process_time()
    with pytest.raises(Seq2SeqError, match=re.escape("--keep '(a+)+$' takes more than 1 s")):
        Rules(keep=re.compile("(a+)+$")).placeholders("a" * 60 + "b")
    assert time.process_time() - began < 5
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert Rules(keep=re.compile("(a+)+$")).placeholders("aa") == {"aa": 1}


def test_another_timer_and_other_threads_are_left_alone() -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGVTALRM, lambda *_: told.append(1))
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.05)
        with limit_time(0.001):
            while not told:
                pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    kept: list[dict[str, int]] = []
    rules = Rules(keep=re.compile("a+"))
    thread = threading.Thread(target=lambda: kept.append(rules.placeholders("aa b")))
    thread.start()
    thread.join()
    assert kept == [{"aa": 1}]

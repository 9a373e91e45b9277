"""Placeholders: which parts of a text are copied, how often, and how long the search may take."""

import re
import signal
import threading
import time

import pytest

from seq2seq.base.environment import limit_time
from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding.constraints.lexical import Term
from seq2seq.decoding.constraints.placeholders import (
    MAX_CHARACTERS,
    MAX_REQUIRED,
    Placeholders,
    split_required,
)
from seq2seq.text.documents.placeholders import PLACEHOLDERS


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
    placeholders = Placeholders(re.compile(PLACEHOLDERS))
    expected = [[Term((each,)), Term((each,), 0, 1, anywhere=True)] for each in kept]
    assert placeholders.terms(text) == [term for terms in expected for term in terms]


def test_a_placeholder_that_occurs_twice_is_copied_twice() -> None:
    placeholders = Placeholders(re.compile(PLACEHOLDERS))
    assert placeholders.terms("%s and %s") == [Term(("%s",), 2), Term(("%s",), 0, 2, anywhere=True)]
    contained = "http://x.y and http://x.y/z"
    assert [term.minimum for term in placeholders.terms(contained)] == [2, 0, 1, 0]
    inside = Placeholders(re.compile("o+")).terms("book")
    assert inside == [Term(("oo",), 1, 1, anywhere=True)]


def test_only_the_first_placeholders_are_required() -> None:
    placeholders = Placeholders(re.compile(PLACEHOLDERS))
    text = " ".join(f"{{n{i}}}" for i in range(300)) + " {n299}"
    required, others = split_required(placeholders.find(text))
    assert required == [f"{{n{i}}}" for i in range(MAX_REQUIRED)]
    assert others == {f"{{n{i}}}": 1 + (i == 299) for i in range(MAX_REQUIRED, 300)}
    assert len(placeholders.terms(text)) == 2 * MAX_REQUIRED
    long = "{" + "a" * MAX_CHARACTERS + "}"
    assert split_required(placeholders.find(f"{long} %s")) == (["%s"], {long: 1})


def test_a_pattern_that_takes_too_long_is_named() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    began = time.process_time()
    with pytest.raises(Seq2SeqError, match=re.escape("--keep '(a+)+$' takes more than 1 s")):
        Placeholders(re.compile("(a+)+$")).find("a" * 60 + "b")
    assert time.process_time() - began < 5
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert Placeholders(re.compile("(a+)+$")).find("aa") == {"aa": 1}


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
    placeholders = Placeholders(re.compile("a+"))
    thread = threading.Thread(target=lambda: kept.append(placeholders.find("aa b")))
    thread.start()
    thread.join()
    assert kept == [{"aa": 1}]

"""Texts as sentences, and as texts again."""

import html
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.text.documents import sentences as sentences_module
from seq2seq.text.documents.document import Document, Split
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.markup import unescape
from seq2seq.text.documents.sentences import (
    MAX_CHARACTERS,
    ends_by_library,
    ends_by_rule,
    lacks_library,
)

DEMO = Path(__file__).resolve().parents[3] / "data" / "demo"
LANGUAGES = st.sampled_from(["en", "de_DE", "fr", "zh", "ja", "th", "ar", "hi", "", None])
# Whatever decides where a sentence ends, and what must not disturb it.
BITS = st.sampled_from(
    [
        *" \t\n\r\f\u2028\u00a0\u3000\ufeff\u200b.!?…:;,\"'()[]<>&-*•#1aB",
        *"éД你。！？「」“”«»؟।😀\ud800\0",
        *("\r\n", "\n\n", "1. ", "a) ", "- ", "> ", "Dr. ", "e.g. ", "http://a.b/c", "{name}"),
    ]
)
TAGS = "<b> </b> <br/> <br> </ < <!-- --> <! <? <script> </script> <pre> </pre> </x> <![CDATA[ ]]>"
TAGS += ' &amp; &lt; &#65; &# &notin; &nbsp </> <svg/> <title> <textarea> <style> " = />'
MARKUP = st.sampled_from(
    [*TAGS.split(), "<p class='a b'>", "<x translate=no>", "<!DOCTYPE html>", "<a href='"]
)


def texts(*more: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(BITS, *more), max_size=40).map("".join)


@given(texts(), LANGUAGES, st.sampled_from(["lines", "sentences", "none"]))
def test_a_text_translated_as_itself_is_the_same(
    text: str, language: str | None, split: Split
) -> None:
    document = Document.of(text, language, split=split)
    assert document.join(document.sentences) == text
    assert all(any(map(str.isalnum, sentence)) for sentence in document.sentences)
    assert not any(re.search(r"[\n\r\t]|^\s|\s$|\s\s", s) for s in document.sentences)


@given(texts(MARKUP), LANGUAGES)
def test_html_translated_as_itself_is_the_same(text: str, language: str | None) -> None:
    document = Document.of(text, language, read=read_html)
    assert document.join(document.sentences) == text


@given(texts())
def test_sentences_by_rule_are_a_partition(text: str) -> None:
    ends = ends_by_rule(text)
    assert ends[-1] == len(text) and ends == sorted(set(ends))


@given(texts(), st.sampled_from(["en", "de", "zh", "ar", "", "xx"]))
def test_sentences_by_the_library_are_a_partition(text: str, language: str) -> None:
    ends = ends_by_library(text, language)
    assert ends[-1] == len(text) and ends == sorted(set(ends))


def test_the_skeleton_of_a_hundred_texts_stays() -> None:
    """Texts are put together from lines, marks and sentences, so that all of these are known."""
    draw = random.Random(1)
    lines = (DEMO / "test.en").read_text(encoding="utf-8").split("\n")
    known = [each for each in lines if re.fullmatch(r"[A-Z][a-z ]{20,}[a-z]{3}\.", each)]
    assert len(known) > 20
    for _ in range(100):
        parts: list[tuple[bool, str]] = []  # is it a sentence?
        numbers = draw.choice([["1. ", "2. "], ["", ""]])
        for line_no in range(draw.randint(2, 8)):
            mark = draw.choice(["", "", "- ", "* ", "• ", "> > ", "## ", "b) ", "(2)\t", "[x] "])
            mark = (numbers + [mark] * 6)[line_no]
            parts.append((False, draw.choice(["", "  ", " > "]) + mark))
            for _ in range(draw.randint(0, 3)):
                gap = draw.choice([" ", "  ", "\u00a0 ", "\t"])
                parts += [(True, draw.choice(known)), (False, gap)]
            end = draw.choice(["", "  ", "\t", "  -----"])
            parts.append((False, end + draw.choice(["\n", "\r\n", "\n\n\n", "\n \n"])))
        text = "".join(part for _, part in parts)
        document = Document.of(text, "en")
        assert document.sentences == [part for is_sentence, part in parts if is_sentence]
        translated = [sentence.upper() for sentence in document.sentences]
        expected = "".join(part.upper() if is_sentence else part for is_sentence, part in parts)
        assert document.join(translated) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Am 3. Mai kam er. Dann ging er.", ["Am 3. Mai kam er.", "Dann ging er."]),
        ("de", "1. Mai ist frei.", ["1. Mai ist frei."]),
        ("de", "1. Rot\n2. Blau", ["Rot", "Blau"]),
        ("en", "Dr. Smith left. Is it?  Yes!", ["Dr. Smith left.", "Is it?", "Yes!"]),
        ("en", "Yahoo! is a name. 3.5 is not.", ["Yahoo! is a name.", "3.5 is not."]),
        ("en", "a\tb c\n--\n:-) x", ["a", "b c", ":-) x"]),
        ("zh", "我爱你。你呢？再见……好", ["我爱你。", "你呢？", "再见……", "好"]),
        ("zh", "“好！”他说。“好。”“是。”", ["“好！”他说。", "“好。”", "“是。”"]),
        ("zh", "1、你好\n（2）再见", ["你好", "再见"]),
        ("ja", "「本です。」と言った。はい。", ["「本です。」と言った。", "はい。"]),
        ("th", "ผมชอบกินข้าว คุณล่ะ?", ["ผมชอบกินข้าว คุณล่ะ?"]),
        ("my", "သွား။ လာ။", ["သွား။", "လာ။"]),
        ("ar", "ما هذا؟ هذا كتاب.", ["ما هذا؟", "هذا كتاب."]),
        ("hi", "यह है। वह है।", ["यह है।", "वह है।"]),
        ("en", "He  said\u00a0so.", ["He said so."]),
        ("en", " \ufeff\n... !\n", []),
    ],
)
def test_sentences_end_where_the_language_says(
    language: str, text: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Document.of(text, language).sentences == expected
    monkeypatch.setattr(sentences_module, "has_library", lambda: False)
    assert Document.of(text, language).sentences == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "He met Sen. Lee. They spoke.", ["He met Sen. Lee.", "They spoke."]),
        ("de", "Er sagte: „Hallo!“ Dann ging er.", ["Er sagte: „Hallo!“", "Dann ging er."]),
    ],
)
def test_the_library_knows_more_abbreviations(
    language: str, text: str, expected: list[str]
) -> None:
    assert Document.of(text, language).sentences == expected


def test_line_breaks_end_sentences_unless_they_are_white_space() -> None:
    text = "One two\nthree. Four\r\nfive."
    assert Document.of(text, "en").sentences == ["One two", "three.", "Four", "five."]
    joined = ["One two three.", "Four five."]
    assert Document.of(text, "en", split="sentences").sentences == joined
    assert Document.of(text, "en", read=read_html).sentences == joined
    assert Document.of(f" {text}\n", "en", split="none").sentences == [" ".join(joined)]


def test_sentences_get_a_space_between_them_in_a_language_that_has_some() -> None:
    document = Document.of("我爱你。你呢？ 再见。", "zh")
    for target, expected in (("en", "A. B. C."), ("ja", "A.B. C."), (None, "A.B. C.")):
        assert document.join(["A.", "B.", "C."], target) == expected


def test_a_translation_brings_no_white_space_and_no_line_break() -> None:
    document = Document.of("- A.\n- B.", "en")
    assert document.join([" C. \n", "D\r\nE."]) == "- C.\n- D E."


def test_there_is_a_translation_for_each_sentence() -> None:
    document = Document.of("A. B is.\n", "en")
    for count in range(4):
        if count != len(document.sentences):
            with pytest.raises(ValueError):
                document.join(["x"] * count)


class Structure(HTMLParser):
    """All of an HTML document but its texts."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[object] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)

    def handle_comment(self, data: str) -> None:
        self.found.append(data)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>A page</title><style>p { color: red }</style></head>
<body onload="alert('Go. Now.')">
<p title="Not this. Nor this.">Fish &amp; chips
  are <b>very</b> good.&nbsp; Yes&#33; X &lt; y.<br>Done.</p>
<!-- A comment. --><script>if (a < b) { c = "<p>No.</p>"; }</script>
<pre>Keep. <b>This.</b></pre><p translate="no">A <span>B</span> C</p><code>x = 1</code>
<ul><li>One.<li>Two</ul><img alt="No." src=a.png> a < b &copy me</body></html>
"""
SENTENCES_OF_PAGE = [
    *("A page", "Fish & chips are", "very", "good.", "Yes!", "X < y.", "Done.", "One.", "Two"),
    "a < b © me",
]


def test_html_is_translated_between_its_tags_only() -> None:
    document = Document.of(PAGE, "en", read=read_html, whole=False)
    assert document.sentences == SENTENCES_OF_PAGE
    translated = document.join([f"<i>{n}</i> & {n}" for n in range(len(document.sentences))])
    assert Structure(translated).found == Structure(PAGE).found
    assert "&lt;i&gt;3&lt;/i&gt; &amp; 3&nbsp; " in translated
    for kept in ("alert('Go. Now.')", "<pre>Keep. <b>This.</b></pre>", "<code>x = 1</code>"):
        assert kept in translated


@given(st.lists(st.tuples(MARKUP, st.sampled_from(["Hund", " Katze. ", "a < b"]))))
def test_translations_in_html_make_no_tags(pieces: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, pieces))
    document = Document.of(text, "de", read=read_html)
    evil = ["<script>x</script>&amp;" for _ in document.sentences]
    assert document.join(evil).count("<script>") == document.join([""] * len(evil)).count(
        "<script>"
    )


@given(texts(MARKUP))
def test_references_are_resolved_as_by_the_library_and_each_character_has_its_place(
    text: str,
) -> None:
    plain, places = unescape(text)
    assert len(places) == len(plain) + 1 and places[-1] == len(text)
    assert [*places] == sorted(places)
    for character, begin in zip(plain, places, strict=False):
        assert text[begin] in (character, "&")
    if "&#" not in text:
        assert plain == html.unescape(text)


def test_the_library_gets_no_more_than_it_can_do_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []

    def segment(language: str, text: str) -> list[str]:
        lengths.append(len(text))
        return [text]

    monkeypatch.setattr(sentencex, "segment", segment)
    for unit in ("« ", "x", "word. "):
        text = unit * (3 * MAX_CHARACTERS // len(unit))
        assert ends_by_library(text, "en")[-1] == len(text)
    assert max(lengths) <= MAX_CHARACTERS and len(lengths) < 15


def test_a_failure_of_the_library_costs_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def fail(error: type[BaseException]) -> None:
        def segment(language: str, text: str) -> list[str]:
            raise error

        monkeypatch.setattr(sentencex, "segment", segment)

    fail(PanicException)
    assert Document.of("A. B is.", "en").sentences == ["A. B is."]
    monkeypatch.setattr(sentencex, "segment", lambda language, text: ["lost"])
    assert Document.of("A. B is.", "en").sentences == ["A. B is."]
    fail(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        Document.of("A. B is.", "en")


def test_what_would_help_is_known_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_module, "has_library", lambda: False)
    assert lacks_library("en") and not lacks_library("zh")
    monkeypatch.setattr(sentences_module, "has_library", lambda: True)
    assert not lacks_library("en")

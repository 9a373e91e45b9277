"""Any message of a program, in every format that has messages: nothing but its words changes."""

import html
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from helpers.document_files import read, translate
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.text.documents.files.messages import HAS_TAGS
from seq2seq.text.documents.files.po import STRING, read_string, write_string

PARTS = [
    *"aBc é&<>;#\"'\\ \n\t,.{}%/=",
    *("<b>", "</b>", "<0>", "</0>", "<1/>", "<br/>", "<br>", '<a href="x?a=1&b=2">', "</a>"),
    *(
        "&amp;",
        "&lt;",
        "&#39;",
        "Hund",
        " Kind ",
        "{name}",
        "%s",
        "&Datei",
        "\n\n",
    ),
]
MESSAGES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=12).map("".join)
TAG = re.compile(r"</?(?:b|0|1|a|br)\b[^<>]*>")


def catalog(message: str) -> bytes:
    return f'msgid "x"\nmsgstr "y"\n\nmsgid {write_string(message, chr(10))}\nmsgstr ""\n'.encode()


def msgstr(data: bytes) -> str:
    return read_string(data.decode().rpartition("\nmsgstr ")[2])


def xliff(message: str) -> bytes:
    source = html.escape(message, quote=False)
    units = f"<trans-unit><source>{source}</source></trans-unit>"
    return f"<xliff><file><body>{units}</body></file></xliff>".encode()


def target(data: bytes) -> str | None:
    found = [each.text or "" for each in ElementTree.fromstring(data).iter("target")]
    return found[0] if found else None


@given(MESSAGES)
def test_translated_as_itself_a_message_is_the_same(message: str) -> None:
    assert msgstr(translate("a.po", catalog(message), str)) == message
    assert target(translate("a.xlf", xliff(message), str)) == message


@given(MESSAGES)
def test_of_any_message_only_the_words_change(message: str) -> None:
    for new in (
        msgstr(translate("a.po", catalog(message))),
        target(translate("a.xlf", xliff(message))),
    ):
        if not new:  # {name} became {NAME}
            assert "{name}" in message
            continue
        if HAS_TAGS.search(message):
            assert Counter(TAG.findall(new)) == Counter(TAG.findall(message))
        said, expected = ("".join(html.unescape(each).upper().split()) for each in (new, message))
        assert Counter(said) == Counter(expected)


@given(st.text())
def test_strings_are_read_as_they_were_written(text: str) -> None:
    for end in ("\n", "\r\n"):
        written = write_string(text, end)
        assert read_string(written) == text
        assert not STRING.sub("", written).strip()
        assert all(len(line) < 2 or line[0] == line[-1] == '"' for line in written.split(end))


@pytest.mark.parametrize(
    ("message", "translation", "expected"),
    [
        ("&copy; Hund", "© dog", "&copy; dog"),
        ("Hund &amp; Katze", "dog & cat < 3", "dog &amp; cat < 3"),
        ("Der Hund", "dog & cat", "dog & cat"),
        ("Hund &quot;A&quot;", 'dog "A"', "dog &quot;A&quot;"),
    ],
)
def test_what_a_message_writes_as_an_entity_is_one_in_its_translation(
    message: str, translation: str, expected: str
) -> None:
    assert msgstr(translate("a.po", catalog(message), lambda text: translation)) == expected
    assert target(translate("a.xlf", xliff(message), lambda text: translation)) == expected


def test_the_sentences_of_messages_have_no_markup() -> None:
    message = "Ein <0>Hund</0> &amp; eine <b>Katze</b>.\nZwei"
    for name, data in (("a.po", catalog(message)), ("a.xlf", xliff(message))):
        sentences = [each for document in read(name, data).documents for each in document.sentences]
        assert sentences == ["Ein Hund & eine Katze.", "Zwei"]

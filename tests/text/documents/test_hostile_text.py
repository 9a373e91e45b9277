"""Text from outside costs time in proportion to its length, whatever it consists of.

This file is also a program: it reads hostile texts within limits of CPU time, and is killed by the
system at what takes 50 times as long as ordinary text of the same length.
"""

import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from helpers.piece_models import model_bytes
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.alignment.links import TOKEN
from seq2seq.base.errors import DataError
from seq2seq.decoding.constraints.placeholders import Placeholders
from seq2seq.decoding.constraints.spelling import count_occurrences, is_inside_word
from seq2seq.metrics.text_checks import cautions
from seq2seq.text.documents.document import Document
from seq2seq.text.documents.files.markdown_parser import TITLE, VERBATIM
from seq2seq.text.documents.files.po import FIELD, STRING
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.markup import Reader, Token, unescape
from seq2seq.text.documents.placeholders import DIALECTS, PLACEHOLDERS, is_language
from seq2seq.text.documents.xml_markup import XMLReader
from seq2seq.text.tokenization import sentencepiece
from seq2seq.text.tokenization.splitting import SENTENCE_END
from seq2seq.text.tokenization.tokenizer import Tokenizer

LENGTH, FACTOR = 30_000, 50
ORDINARY = "Der Hund, den sie am 3. Mai sahen, heißt {name}; er läuft. "

# What a text begins with, what it repeats to its end, and how it ends.
FAMILIES = [
    *[("", unit, "") for unit in ("a", "a.", "中", "a\n", " \n", " .", "\u0301", "▁", "“")],
    *[("", unit, "") for unit in ("「a", "的。", ".”", "> ", "• ", "\u3000", "%1.", "a@a-", "&")],
    *[("%", "0", ""), ("%(", "a", ""), ("%.", "1", "."), ("a" * 64, "@" + "b" * 999, "")],
    *[("", "http://", ""), ("http://", ").", ""), ("http://", " http:", ""), ("", "{a", "}")],
    *[("", "<a ", ">"), ("", "<a b='", ">"), ("", "</", ">"), ("", "<?", ">"), ("", "<![", ">")],
    *[("", "<!--", ""), ("", "<!--a>", ""), ("", "--", ">"), ("", "<script>", "</script>")],
    *[("&#", "0", ""), ("&#x", "f", ""), ("&", "a", ""), ("", "<b translate=no>", "")],
    *[("▁", "▁", "a"), ("line ", "1,", "a"), ("score:", " ", "")],
    *[("", "{n,plural,", ""), ("{n,plural,", "{x}", ""), ("", "{n,plural,}", ""), ("", "{{", "")],
    *[
        ("", "%a.", ""),
        ("", ":a", ""),
        ("", "a-1", ""),
        ("", "www.", ""),
        ("", "♪ ", ""),
        ("", "$t(", ""),
    ],
    *[("a", ".", "a"), ("", "\u00ad", "a"), ("", "<sup>a", ""), ("", "<rt>a", ""), ("(", "a", ")")],
    *[("__", "a", ""), ("__", "a_", "__"), ("", "[[a", ""), ("@", "a.", "@"), ("", "%[1", "")],
    *[("", "<?=", ""), ("", "<%", ""), ("", "<%>", ""), ("<%", "%", "")],
    *[("", "1", "zz"), ("Hund", "。)", "a"), ("a", "-", "1"), ("", "1.", "zz"), ("", "a1-", "Zug")],
]


def repeated(head: str, unit: str, tail: str, length: int = LENGTH) -> str:
    room = length - len(head) - len(tail)
    return head + (unit * (room // len(unit) + 1))[:room] + tail


def read_document(text: str, language: str, read: Reader | None = None) -> None:
    document = Document.of(text, language, read=read, split="sentences")
    document.join([f"{sentence}\r\n " for sentence in document.sentences], "en")


def read_well_formed(text: str) -> list[Token]:
    """The tokens of XML, or of a text if it is none."""
    with suppress(DataError):
        return XMLReader()(text)
    return XMLReader()(f"<p>{re.sub('[^a-z ]', '<b/>', text)}</p>")


@cache
def imported_tokenizer() -> Tokenizer:
    """Of a SentencePiece model that drops and joins spaces."""
    return sentencepiece.build_tokenizer(
        sentencepiece.parse_piece_model(model_bytes({"a": -1.0, "\u2581": -2.0}))
    )


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "placeholders": lambda text: Placeholders(re.compile(PLACEHOLDERS)).terms(text),
    "what is language": is_language,
    "document": lambda text: read_document(text, "de"),
    "document without spaces": lambda text: read_document(text, "zh"),
    "html": lambda text: (read_html(text), unescape(text)),
    "html translated": lambda text: read_document(text, "de", read_html),
    "xml translated": lambda text: read_document(text, "de", read_well_formed),
    "parts of a long text": lambda text: [m.end() for m in SENTENCE_END.finditer(text)],
    "cautions": lambda text: cautions([text], {"a": [text]}),
    "occurrences": lambda text: [count_occurrences(text[:n], text) for n in (99, LENGTH // 2)],
    "pieces of other programs": lambda text: imported_tokenizer().encode_batch([text]),
}


def read_hostile_texts() -> None:
    """The program: each function reads all families, and is killed if it takes too long."""
    for name, function in FUNCTIONS.items():
        began = time.process_time()
        function(repeated("", ORDINARY, ""))
        needed = max(0.01, time.process_time() - began) * len(FAMILIES)
        most = int(time.process_time() + FACTOR * needed) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        for family in FAMILIES:
            print(name, family, flush=True)
            function(repeated(*family))


@pytest.mark.slow
def test_hostile_text_takes_linear_time() -> None:
    ended = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert ended.returncode == 0, (ended.stdout.splitlines()[-1:], ended.stderr[-2000:])
    assert len(ended.stdout.splitlines()) == len(FUNCTIONS) * len(FAMILIES)


POSSESSIVE = {
    # Messages are left out, which would take exponential time.
    re.compile("|".join([*DIALECTS.values()][1:])): [
        *"aZ1_.+-@%{}<>/ (s$&;,",
        "://",
        "%(",
        "a@b.c",
        "{x}",
        "{n, plural,",
        "www.",
        *("__", "[[", "]]", "%#@", "*1$", "'d", "I64"),
    ],
    TOKEN: [*"aé.,'-_’!(# "],
    FIELD: ["msgid ", "msgstr[0]", *'"\\n \n'],
    STRING: [*'"\\na '],
    VERBATIM: [*"{}[]!:%<=#.a ~+", "{{", "}}", "[[", "{/*", "*/}"],
    TITLE: [*'a "[]{}=: |'],
}


@pytest.mark.parametrize(
    "pattern", POSSESSIVE, ids=["placeholders", "words", "fields", "strings", "verbatim", "titles"]
)
def test_patterns_that_give_nothing_back_find_what_others_find(pattern: re.Pattern[str]) -> None:
    """Before Python 3.11.4 a possessive group that fails in its middle keeps what it has read."""
    plain = re.compile(re.sub(r"(?<!\\)([*+?}])\+(?!\.)", r"\1", pattern.pattern), pattern.flags)
    draw = random.Random(1)
    for _ in range(5000):
        text = "".join(draw.choices(POSSESSIVE[pattern], k=10))
        spans = [[match.span() for match in each.finditer(text)] for each in (pattern, plain)]
        assert spans[0] == spans[1], text


@given(st.text("ab -", max_size=12), st.integers(1, 5), st.text("ab -", max_size=30), st.booleans())
def test_overlapping_occurrences_are_counted(unit: str, n: int, text: str, anywhere: bool) -> None:
    phrase, text = (unit * n)[:12] or "a", text + unit * n + text
    places = [i for i in range(len(text)) if text.startswith(phrase, i)]
    ends = [(i, i + len(phrase)) for i in places]
    whole = [pair for pair in ends if not any(is_inside_word(text, place) for place in pair)]
    assert count_occurrences(phrase, text, anywhere) == len(places if anywhere else whole)


def test_a_number_that_python_cannot_read_is_text() -> None:
    text = f"Tor &#{'0' * 5000}65; A&#0065;"
    assert unescape(text)[0] == text.replace("&#0065;", "A")
    document = Document.of(text, "de", read=read_html)
    assert document.join(document.sentences) == text


@pytest.mark.parametrize(
    "text", ["A <!-- b>C", "A <!-- b --><!-- b>C", "A <!-- <b> --><!--b<c>C", "A <!--->b--><!-->C"]
)
def test_a_comment_without_an_end_ends_with_the_next_tag(text: str) -> None:
    assert " ".join(Document.of(text, "de", read=read_html).sentences) == "A C"


def test_the_service_takes_no_patterns() -> None:
    pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
    from seq2seq.serving.description import load_description

    described = load_description()["components"]["schemas"]
    fields = {name for schema in described.values() for name in schema.get("properties", {})}
    assert {"text", "must", "q"} <= fields
    assert not [name for name in fields if re.search("keep|pattern|regex|rules", name)]


if __name__ == "__main__":
    read_hostile_texts()

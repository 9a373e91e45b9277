"""Files in encodings other than UTF-8: read as declared, and written so that others read them."""

import io
import zipfile
from functools import partial
from xml.etree import ElementTree

import pytest
from helpers.document_files import read, translate, word

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.encodings import find_codec

CATALOG = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={0}\\n"\n\nmsgid "{1}"\nmsgstr ""\n'
PAGE = '<!-- <meta charset="utf-7"> --><meta charset="{0}"><p>{1}</p>'
OLD_PAGE = '<META http-equiv=Content-Type content="text/html; charset={0}"><p>{1}</p>'
XHTML = '<?xml version="1.0" encoding="{0}"?><html><p>{1}</p></html>'
XLIFF = (
    '<?xml version="1.0" encoding="{0}"?><xliff version="1.2"><file><body><trans-unit id="1">'
    "<source>{1}</source></trans-unit></body></file></xliff>"
)
DECLARED = {"a.po": CATALOG, "a.html": PAGE, "a.htm": OLD_PAGE, "b.html": XHTML, "a.xlf": XLIFF}


def note(seen: list[str], new: str, sentence: str) -> str:
    seen.append(sentence)
    return new


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize(
    ("encoding", "text", "new"),
    [
        ("ISO-8859-1", "schläft", "dort"),
        ("ISO-8859-2", "źdźbło", "też"),
        ("windows-1251", "собака", "кот"),
        ("KOI8-R", "собака", "кот"),
        ("UTF-8", "schläft", "東京"),
    ],
)
def test_the_declared_encoding_is_read_and_written(
    name: str, encoding: str, text: str, new: str
) -> None:
    data = DECLARED[name].format(encoding, text).encode(encoding)
    seen: list[str] = []
    written = translate(name, data, partial(note, seen, new))
    assert seen == [text]
    assert new in written.decode(encoding) and encoding in written.decode(encoding)
    if name == "a.xlf":  # whose parser follows the declaration
        assert [each.text for each in ElementTree.fromstring(written).iter("target")] == [new]


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("encoding", ["ISO-8859-1", "US-ASCII", "windows-1252"])
def test_text_that_the_encoding_cannot_hold_makes_it_utf8(name: str, encoding: str) -> None:
    data = DECLARED[name].format(encoding, "dog").encode(encoding)
    written = translate(name, data, lambda sentence: "東京").decode()
    assert encoding not in written
    assert written.replace("UTF-8", encoding).replace("東京", "") == translate(
        name, data, lambda sentence: "z"
    ).decode().replace("z", "")


def test_pages_are_read_as_browsers_read_them() -> None:
    """Under the name of Latin-1, pages have the quotation marks of Windows; readers that take the
    name at its word would see control characters, so these are written as UTF-8.
    """
    data = PAGE.format("iso-8859-1", "“so”").encode("cp1252")
    written = translate("a.html", data, lambda sentence: sentence + "!").decode()
    assert "<p>“so”!</p>" in written or "<p>“so!”</p>" in written
    assert 'charset="UTF-8"' in written and 'charset="utf-7"' in written
    assert translate("a.html", data, str) == data


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-8"])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.srt", "a.html", "a.xlf"])
def test_a_byte_order_mark_says_the_encoding(name: str, codec: str) -> None:
    label = codec[:6].strip("-")
    text = {
        "a.srt": "1\r\n00:00:01,000 --> 00:00:02,000\r\nsatz eins\r\n",
        "a.xlf": XLIFF.format(label, "satz eins"),
        "a.html": PAGE.format(label, "satz eins"),
    }.get(name, "satz eins\r\n")
    data = ("\ufeff" + text).encode(codec)
    assert name == "a.xlf" or translate(name, data, str) == data
    written = translate(name, data, lambda sentence: "東京").decode(codec)
    assert written[0] == "\ufeff" and "東京" in written
    if name != "a.xlf":
        assert written == "\ufeff" + text.replace("satz eins", "東京")


def test_two_bytes_without_a_mark_are_seen_in_xml() -> None:
    data = XLIFF.format("UTF-16", "satz").encode("utf-16-le")
    assert "<target" in translate("a.xlf", data).decode("utf-16-le")


@pytest.mark.parametrize("label", ["utf-16", "utf-8", "no-such-encoding", "base64", "utf-7"])
def test_a_declaration_that_cannot_be_true_is_corrected(label: str) -> None:
    data = XLIFF.format(label, "schläft").encode()
    root = ElementTree.fromstring(translate("a.xlf", data, lambda sentence: "中"))
    assert [each.text for each in root.iter("target")] == ["中"]


def test_a_wrong_declaration_beside_a_byte_order_mark_is_corrected() -> None:
    data = ("\ufeff" + XLIFF.format("iso-8859-1", "schläft")).encode("utf-16-le")
    root = ElementTree.fromstring(translate("a.xlf", data))
    assert [each.text for each in root.iter("target")] == ["SCHLÄFT"]


def test_parts_of_word_have_encodings_of_their_own() -> None:
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "<w:p><w:r><w:t>schläft</w:t></w:r></w:p>"
    header = f'<?xml version="1.0" encoding="{{}}"?><w:hdr xmlns:w="{main}">{body}</w:hdr>'
    for encoding, codec in (("ISO-8859-1", "iso-8859-1"), ("UTF-16", "utf-16")):
        part = header.format(encoding).encode(codec)
        new = translate("a.docx", word(body, ("word/header1.xml", part)))
        with zipfile.ZipFile(io.BytesIO(new)) as archive:
            root = ElementTree.fromstring(archive.read("word/header1.xml"))
        assert "".join(root.itertext()) == "SCHLÄFT"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", "schläft".encode("latin-1"), r"byte 4 \(0xe4\) is not UTF-8"),
        ("a.html", "<p>schläft".encode("latin-1"), r"is not UTF-8.*iconv"),
        ("a.po", CATALOG.format("ASCII", "ä").encode("latin-1"), "is not ASCII"),
        ("a.xlf", XLIFF.format("EUC-JP", "ä").encode("latin-1"), "is not EUC-JP"),
        ("a.xlf", XLIFF.format("nonsense", "ä").encode("latin-1"), "is not nonsense"),
        ("a.txt", b"\xff\xfea", "is not UTF-16-LE, which its first bytes indicate"),
    ],
)
def test_bytes_that_are_no_text_are_named(name: str, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        translate(name, data)


def test_only_encodings_in_which_a_declaration_can_be_read_are_taken() -> None:
    for label in ("latin1", "x-sjis", "GB2312", "Big5", "euc-kr", "iso-8859-15", "macintosh"):
        assert find_codec(label)
    for label in ("rot13", "hex", "idna", "unicode_escape", "utf-16", "cp037", "punycode", "zip"):
        assert not find_codec(label)


@pytest.mark.parametrize("name", ["a.html", "a.txt", "a.md", "a.strings"])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_two_bytes_for_each_character_are_not_one(name: str, codec: str) -> None:
    """Without a mark, this is also UTF-8, of letters with zero bytes between them."""
    advice = f"UTF-16 without a byte order mark: iconv -f {codec.upper().replace('16-', '16')} "
    with pytest.raises(DataError, match=advice):
        read(name, "A dog runs.".encode(codec))

"""Files of all formats: read, translated and written with all but their sentences kept."""

import io
import re
import sys
import zipfile
from contextlib import suppress
from xml.etree import ElementTree

import pytest
from helpers.document_files import CATALOG, MAIN, main_xml, read, run, translate, word, zip_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import archives, parts, toolkit
from seq2seq.text.documents.files.formats import FORMATS
from seq2seq.text.documents.xml_markup import MAX_DEPTH

WORD = f"{{{MAIN}}}"
WORDS = ["dog", "big", "run", "Tom & Jerry", "A < B", "naïve", "東京", "שלום", "a", "it."]
settings.register_profile("files", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("files")


CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a"><body>
  <trans-unit id="1">
    <source>Hello <g id="1">big <x id="2"/>world</g> &amp; more.</source>
  </trans-unit>
  <trans-unit id="2" translate="no"><source>Not this</source></trans-unit>
  <trans-unit id="3"><source>So <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> it is</source>
    <target state="new"/></trans-unit>
  <group translate="no"><trans-unit id="4"><source>Nor this</source></trans-unit></group>
  <trans-unit id="5"><source>Old text</source><seg-source><mrk mtype="seg" mid="1">Old text</mrk>
    </seg-source><target state="new">old</target>
    <alt-trans><source>Nor this</source></alt-trans></trans-unit>
</body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">
<file id="f"><unit id="1"><segment>
<source>A <pc id="1">big</pc> <sc id="2"/>dog<ec startRef="2"/>
<mrk id="m" translate="no">Keep me</mrk> here.</source></segment>
<ignorable><source>Not this</source></ignorable></unit>
<unit id="2" translate="no"><segment><source>Nor this</source></segment></unit>
</file></xliff>"""
EXAMPLES = {
    "a.txt": "\ufeffA text.\r\n\r\n- An item.\tA cell.\n",
    "a.html": '<!DOCTYPE html><p title="not this">A <b>bold</b> dog.</p><pre>not</pre>',
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
@pytest.mark.parametrize("whole", [True, False])
def test_translated_as_itself_a_file_is_the_same(name: str, end_of_line: str, whole: bool) -> None:
    data = EXAMPLES[name].replace("\n", end_of_line).encode()
    assert translate(name, data, str, whole) == data
    assert translate(name, data, str.upper, whole) != data


@given(st.lists(st.sampled_from([*"<>/b i{\\}&;-\n\r12:,.é", "00:00:01,000 --> 00:00:02,000"])))
def test_any_subtitles_and_catalogs_come_back(parts: list[str]) -> None:
    text = "".join(parts)
    for name, before in (("a.srt", CUE), ("a.txt", "")):
        data = (before + text).encode()
        assert translate(name, data, str) == data
    with suppress(DataError):  # of what is no catalog
        catalog = f'msgid "{text}"\nmsgstr "done"\n' + text
        assert translate("a.po", catalog.encode(), str) == catalog.encode()


def test_messages_get_translations_where_they_have_none() -> None:
    text = translate("a.po", CATALOG.encode()).decode()
    expected = CATALOG.replace(
        r'\"you\"\n"' + '\nmsgstr ""', r'\"you\"\n"' + '\nmsgstr "HELLO \\"YOU\\"\\n"'
    )
    expected = expected.replace('msgstr ""\n""\n', 'msgstr ""\n"TWO LINES\\n"\n"OF TEXT."\n')
    expected = expected.replace(
        'msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "ONE FILE"\nmsgstr[1] "MANY FILES"'
    )
    assert text == expected.replace('Baum"\nmsgstr[1] ""', 'Baum"\nmsgstr[1] "MANY TREES"')
    assert translate("a.po", text.encode(), str.lower).decode() == text


@pytest.mark.parametrize("xml", [XLIFF_1, XLIFF_2])
def test_only_targets_change(xml: str) -> None:
    text = translate("a.xlf", xml.encode()).decode()
    assert "NOT THIS" not in text and "NOR THIS" not in text
    target = re.compile(r"\s*<target[^>]*/>|\s*<target.*?</target>", re.S)
    assert target.sub("", text).replace(' state="translated"', "") == target.sub("", xml)
    root = ElementTree.fromstring(text)
    for unit in root.iter():
        names = {each.tag.rpartition("}")[2]: each for each in unit}
        if {"source", "target"} <= set(names):
            codes = [
                sorted((each.tag, *each.attrib.items()) for each in names[side].iter())[:-1]
                for side in ("source", "target")
            ]
            assert len(codes[0]) <= len(codes[1])
            said = "".join(names["source"].itertext()), "".join(names["target"].itertext())
            assert said[0].split()[0].upper() == said[1].split()[0]
    assert translate("a.xlf", text.encode()).decode() == text


def test_targets_are_made_or_replaced() -> None:
    state = 'state="needs-review-translation"'
    text = translate("a.xlf", XLIFF_1.encode()).decode()
    assert (
        f'\n    <target {state}>HELLO <g id="1">BIG <x id="2"/>WORLD</g> &amp; MORE.</target>'
        in text
    )
    assert f'{state}>SO <bpt id="1">&lt;b></bpt>BOLD<ept id="1">&lt;/b></ept> IT IS</t' in text
    assert text.count("<target") == 3 and ">old<" not in text
    assert (
        '<mrk id="m" translate="no">Keep me</mrk>' in translate("a.xlf", XLIFF_2.encode()).decode()
    )


def paragraph_text(xml: str) -> str:
    return "".join(each.text or "" for each in ElementTree.fromstring(xml).iter(f"{WORD}t"))


def test_the_formatting_of_most_of_a_sentence_is_its_base() -> None:
    bold, italic = "<w:b/>", "<w:i/>"
    body = run("A very long text is ") + run("bold", bold) + run(" here. ")
    body += run("The second sentence is of ", bold) + run("another", italic) + run(" form.", bold)
    xml = main_xml(translate("a.docx", word(f"<w:p>{body}</w:p>"), str.upper))
    runs = re.findall(r"<w:r>(?:<w:rPr>(.*?)</w:rPr>)?<w:t[^>]*>(.*?)</w:t>", xml)
    formats = {text.strip(): form for form, text in runs}
    assert formats["BOLD"] == bold and formats["A VERY LONG TEXT IS"] == ""
    assert formats["ANOTHER"] == italic and formats["THE SECOND SENTENCE IS OF"] == bold
    assert next(form for text, form in formats.items() if text.endswith("FORM.")) == bold


def test_equal_runs_are_one_and_what_is_no_text_stays() -> None:
    pieces = (
        '<w:r w:rsidR="1"><w:rPr><w:lang w:val="de"/></w:rPr><w:t>One wo</w:t></w:r>',
        "<w:proofErr w:type='x'/><w:r><w:t>rd and</w:t><w:tab/><w:t>more </w:t></w:r>",
        '<w:hyperlink r:id="r1"><w:r><w:rPr><w:u/></w:rPr><w:t>a link</w:t></w:r></w:hyperlink>',
        '<w:bookmarkStart w:id="0" w:name="b"/><w:r><w:t xml:space="preserve"> to </w:t></w:r>',
        '<w:bookmarkEnd w:id="0"/><w:r><w:rPr><w:rStyle w:val="F"/></w:rPr>'
        '<w:footnoteReference w:id="2"/></w:r>'
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>",
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>seven</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        '<w:r><w:t xml:space="preserve"> follow it.</w:t></w:r>',
    )
    data = word(f"<w:p><w:pPr><w:jc/></w:pPr>{''.join(pieces)}</w:p>".replace("r:id", "w:rid"))
    xml = main_xml(translate("a.docx", data))
    assert paragraph_text(xml).startswith("ONE WORD AND")
    assert "<w:tab/>" in xml and "<w:pPr><w:jc/></w:pPr>" in xml
    assert re.search(r'<w:hyperlink w:rid="r1"><w:r><w:rPr><w:u/></w:rPr><w:t [^>]*>A LINK<', xml)
    assert pieces[5] in xml and "<w:del><w:r><w:delText>gone" in xml
    assert '<w:r><w:rPr><w:rStyle w:val="F"/></w:rPr><w:footnoteReference w:id="2"/></w:r>' in xml
    assert xml.index("bookmarkStart") < xml.index("bookmarkEnd")
    assert translate("a.docx", data, str) == data


def test_paragraphs_in_boxes_are_translated_too() -> None:
    box = f"<w:r><w:pict><w:txbxContent><w:p>{run('in a box')}</w:p></w:txbxContent></w:pict></w:r>"
    for before in ("beside it ", ""):
        xml = main_xml(translate("a.docx", word(f"<w:p>{run(before)}{box}{run('after')}</w:p>")))
        assert xml.count("IN A BOX") == 1 and "in a box" not in xml and "AFTER" in xml
        ElementTree.fromstring(xml)


def test_other_entries_of_the_archive_stay_in_their_order() -> None:
    others = [("word/media/a.png", b"\x00\xff" * 9), ("word/styles.xml", "<not><this/></not>")]
    header = ("word/header1.xml", f'<w:hdr xmlns:w="{MAIN}"><w:p>{run("a header")}</w:p></w:hdr>')
    comments = ("word/comments.xml", f'<w:c xmlns:w="{MAIN}"><w:p>{run("not this")}</w:p></w:c>')
    data = word(f"<w:p>{run('text')}</w:p>", *others, header, comments)
    new = translate("a.docx", data)
    with zipfile.ZipFile(io.BytesIO(data)) as old_file, zipfile.ZipFile(io.BytesIO(new)) as file:
        assert file.namelist() == old_file.namelist() and file.testzip() is None
        changed = {name for name in file.namelist() if file.read(name) != old_file.read(name)}
        dates = [[entry.date_time for entry in each.infolist()] for each in (file, old_file)]
    assert changed == {"word/document.xml", "word/header1.xml"} and dates[0] == dates[1]


RUNS = st.recursive(
    st.builds(run, st.sampled_from(WORDS), st.sampled_from(["", "<w:b/>", "<w:i/>"]))
    | st.sampled_from(
        [
            '<w:bookmarkStart w:id="1"/>',
            '<w:bookmarkEnd w:id="1"/>',
            "<w:r><w:br/></w:r>",
            "<w:hyperlink/>",
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
            '<w:r><w:instrText>HYPERLINK "a"</w:instrText></w:r>',
            '<w:r><w:fldChar w:fldCharType="separate"/></w:r>',
            '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
            '<w:r><w:drawing n="7"/></w:r>',
        ]
    ),
    lambda inner: (
        st.builds(
            "<w:{0}>{1}</w:{0}>".format,
            st.sampled_from(["hyperlink", "ins", "smartTag"]),
            st.lists(inner, max_size=4).map("".join),
        )
        | st.lists(inner, max_size=4).map("".join)
    ),
    max_leaves=12,
)


def skeleton(xml: str) -> list[tuple[str, ...]]:
    """The elements of a document that are no runs, and no text or formatting of one."""
    formatting = {f"{WORD}{name}" for name in ("r", "rPr", "t", "b", "i")}
    elements = ElementTree.fromstring(xml).iter()
    return sorted(
        (
            each.tag,
            *map(str, each.attrib.items()),
            *((each.text or "",) if "instr" in each.tag else ()),
        )
        for each in elements
        if each.tag not in formatting
    )


@given(st.lists(RUNS, min_size=1, max_size=4), st.booleans())
def test_the_skeleton_of_any_document_stays(bodies: list[str], whole: bool) -> None:
    data = word("".join(f"<w:p>{body}</w:p>" for body in bodies))
    assert translate("a.docx", data, str, whole) == data
    for by in (str.upper, lambda text: " ".join(text.split()[::-1]), lambda text: "x. y"):
        new = main_xml(translate("a.docx", data, by, whole))
        assert skeleton(new) == skeleton(main_xml(data))
    words = paragraph_text(main_xml(translate("a.docx", data, whole=whole)))
    assert "".join(words.split()) == "".join(paragraph_text(main_xml(data)).upper().split())


def encrypted() -> bytes:
    """An archive whose entries say that they are encrypted."""
    data = bytearray(word(""))
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = data.find(signature)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(signature, place + 1)
    return bytes(data)


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b SYSTEM "file:///etc/passwd">]><x>&a;&b;</x>'
DEEP = "<g>" * (MAX_DEPTH + 1) + "</g>" * (MAX_DEPTH + 1)
HOSTILE = {
    "ratio": (".docx", lambda: word("", ("a", b"\0" * 2**26)), "which is too many"),
    "entries": (
        ".docx",
        lambda: word("", *((f"{k}", b"") for k in range(10_001))),
        "at most 10,000",
    ),
    "parent": (".docx", lambda: word("", ("a/../../b", b"")), "out of the archive"),
    "absolute": (".docx", lambda: word("", ("/etc/passwd", b"")), "out of the archive"),
    "windows": (".docx", lambda: word("", ("..\\b", b"")), "out of the archive"),
    "drive": (".docx", lambda: word("", ("C:b", b"")), "out of the archive"),
    "encrypted": (".docx", encrypted, "encrypted"),
    "cut": (".docx", lambda: word(f"<w:p>{run('a')}</w:p>")[:-30], "damaged"),
    "garbage": (".docx", lambda: b"PK\x03\x04" + b"a" * 99, "damaged"),
    "no zip": (".docx", lambda: b"A text.", "not a zip"),
    "empty": (".docx", lambda: b"", "not a zip"),
    "other zip": (".docx", lambda: zip_of(("a.xml", "<a/>")), "word/document.xml"),
    "no xml": (".docx", lambda: zip_of(("word/document.xml", "A < B")), "not well-formed"),
    "no text": (".docx", lambda: zip_of(("word/document.xml", b"\xff")), "not UTF-8"),
    "entities": (".docx", lambda: zip_of(("word/document.xml", ENTITIES)), "declarations"),
    "deep": (".docx", lambda: zip_of(("word/document.xml", DEEP)), "deep"),
    "entities of xliff": (".xliff", ENTITIES.encode, "declarations"),
    "deep xliff": (".xlf", DEEP.encode, "deep"),
    "open xliff": (".xlf", b"<xliff>".lower, "not well-formed"),
    "no subtitles": (".srt", lambda: b"A text.", "no times"),
    "utf-16 without a mark": (".srt", lambda: "1ä".encode("utf-16-le"), "UTF-16"),
    "latin": (".po", lambda: 'msgid "ä"'.encode("latin-1"), "not UTF-8"),
    "large": (".txt", lambda: b"a" * (2**24 + 1), "cut it"),
    "pdf": (".pdf", lambda: b"%PDF", "pdftotext"),
}


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".xml"])
def test_without_the_toolkit_its_formats_are_refused(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in toolkit.CLASSES.values():
        monkeypatch.setitem(sys.modules, f"translate.storage.{name.split('.')[0]}", None)
    with pytest.raises(DataError, match=r"pip install 'seq2seq-attention-zoo\[formats\]'"):
        read(f"a{suffix}", b"<resources/>")


@pytest.mark.parametrize(
    ("name", "advice"), [("a.pdf", "pdftotext"), ("a.ods", "convert-to xlsx"), ("a.xyz", "odt")]
)
def test_other_formats_are_refused_with_advice(name: str, advice: str) -> None:
    with pytest.raises(DataError, match=advice):
        read(name, b"%PDF")


def test_the_suffixes_of_archives_are_those_of_the_formats_without_an_encoding() -> None:
    assert {suffix for suffix, (_, text) in FORMATS.items() if text is None} == archives.SUFFIXES


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_in_a_sentence(case: str) -> None:
    suffix, build, message = HOSTILE[case]
    with pytest.raises(DataError, match=message) as error:
        read(f"a{suffix}", build())
    assert f"a{suffix}" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_of_one_name_and_too_much_xml_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="twice"):
        read("a.docx", word("", ("word/document.xml", "<x/>")))
    data = word(f"<w:p>{run('a')}</w:p>")
    monkeypatch.setattr(parts, "LONGEST", 100)
    with pytest.raises(DataError, match="more than 100 bytes"):
        read("a.docx", data)
    monkeypatch.setattr(archives, "MAX_UNPACKED", 10)
    with pytest.raises(DataError, match="too many"):
        read("a.docx", data)


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    try:
        translate(f"a{name}", data)
    except DataError as error:
        assert str(error)

"""Presentations, workbooks and OpenDocument: their texts are translated, and all else stays."""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from helpers.document_files import read, run, translate, word, zip_of
from helpers.office_files import (
    SHEET,
    TYPES,
    book,
    member,
    open_document,
    relationships,
    slides,
    typed_zip,
    workbook,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq.base.errors import DataError

ANY_FILE = settings(deadline=None, suppress_health_check=list(HealthCheck))


def sentences_of(name: str, data: bytes) -> list[str]:
    return [each for document in read(name, data).documents for each in document.sentences]


def shape_of(xml: str) -> Counter[tuple[str, ...]]:
    """The elements of a file with their attributes, without their order."""
    return Counter((each.tag, *each.attrib.items()) for each in ElementTree.fromstring(xml).iter())


def line(*runs: str) -> str:
    return f"<a:p>{''.join(runs)}</a:p>"


def words(text: str, properties: str = '<a:rPr lang="en"/>') -> str:
    return f"<a:r>{properties}<a:t>{text}</a:t></a:r>"


def test_a_presentation_has_texts_on_slides_and_in_notes() -> None:
    data = slides(line(words("Red house")), line(words("Two trees")), notes=line(words("A note")))
    assert sorted(sentences_of("a.pptx", data)) == ["A note", "Red house", "Two trees"]
    new = translate("a.pptx", data)
    assert "RED HOUSE" in member(new, "ppt/slides/slide0.xml")
    assert "A NOTE" in member(new, "ppt/notes/n.xml")
    assert translate("a.pptx", data, str) == data


def test_formatting_in_attributes_stays_with_its_words() -> None:
    runs = [words("A very "), words("big", '<a:rPr lang="de" b="1"/>'), words(" dog runs home.")]
    new = member(translate("a.pptx", slides(line(*runs))), "ppt/slides/slide0.xml")
    found = re.findall(r"<a:rPr([^>]*)/><a:t>(.*?)</a:t>", new)
    assert [text.strip() for properties, text in found if 'b="1"' in properties] == ["BIG"]
    # The language that a spell checker noted is no formatting.
    same = [words("One ", '<a:rPr lang="en" dirty="0"/>'), words("dog", '<a:rPr lang="de"/>')]
    assert "<a:t>ONE DOG</a:t>" in member(
        translate("a.pptx", slides(line(*same))), "ppt/slides/slide0.xml"
    )


def test_fields_breaks_and_tabs_of_a_slide_stay() -> None:
    number = '<a:fld id="{1}" type="slidenum"><a:rPr/><a:t>seven</a:t></a:fld>'
    end = '<a:endParaRPr lang="en"/>'
    body = line("<a:pPr/>", words("Page one"), "<a:br/>", words("of "), number, end)
    data = slides(body + line(words("Left cell\tRight cell")))
    assert sentences_of("a.pptx", data) == ["Page one of", "Left cell", "Right cell"]
    new = member(translate("a.pptx", data), "ppt/slides/slide0.xml")
    assert number in new and new.count("<a:br/>") == 1 and f"{end}</a:p>" in new
    assert re.search("LEFT CELL.*\t.*RIGHT CELL", new) and "xml:space" not in new


@pytest.mark.parametrize("quote", ['"', "'"])
def test_descriptions_of_pictures_are_translated(quote: str) -> None:
    picture = (
        "<p:cNvPr id='1' name='a red house.png' descr='A &lt;red&gt; house' title='The house'/>"
    )
    data = slides(picture.replace("'", quote) + line(words("A dog")))
    new = member(
        translate("a.pptx", data, lambda text: f'"{text}" o\'clock'), "ppt/slides/slide0.xml"
    )
    (element,) = (each for each in ElementTree.fromstring(new).iter() if each.tag.endswith("cNvPr"))
    assert element.get("descr") == '"A <red> house" o\'clock'
    assert (
        element.get("title") == '"The house" o\'clock' and element.get("name") == "a red house.png"
    )
    space = 'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    inside = f'<w:r><w:drawing><wp:docPr {space} descr="a dog" name="stays"/></w:drawing></w:r>'
    xml = member(
        translate("a.docx", word(f"<w:p>{run('Look: ')}{inside}{run('here')}</w:p>")),
        "word/document.xml",
    )
    assert 'descr="A DOG" name="stays"' in xml and "LOOK:" in xml and "HERE" in xml


def test_a_workbook_has_its_shared_strings() -> None:
    rich = "<si><r><t>Rich </t></r><r><rPr><b/></rPr><t>text</t></r>"
    rich += "<rPh sb='0' eb='1'><t>not</t></rPh></si>"
    data = workbook(
        f"<si><t xml:space='preserve'>  First line\nSecond line </t></si>{rich}<si><t>12,5</t></si>"
    )
    assert sentences_of("a.xlsx", data) == ["First line", "Second line", "Rich text"]
    new = member(translate("a.xlsx", data), "xl/strings.xml")
    assert "<t xml:space='preserve'>  FIRST LINE\nSECOND LINE </t>" in new
    assert "<rPh sb='0' eb='1'><t>not</t></rPh>" in new and "<b/></rPr><t xml:space" in new
    assert member(translate("a.xlsx", data), "xl/sheets/a.xml") == member(data, "xl/sheets/a.xml")


def test_inline_texts_of_cells_are_translated_and_formulas_are_not() -> None:
    cells = (
        '<c t="inlineStr"><is><t>A cell</t></is></c>'
        '<c t="str"><f>IF(A1="A cell","Yes it is","No")</f><v>Yes it is</v></c>'
    )
    new = member(translate("a.xlsx", workbook("", sheet=cells)), "xl/sheets/a.xml")
    assert "<is><t>A CELL</t></is>" in new and cells.partition("</c>")[2] in new


def test_escaped_line_ends_of_excel_stay() -> None:
    data = workbook("<si><t>First line_x000D_\nSecond line_x000d__x000A_</t></si>")
    assert sentences_of("a.xlsx", data) == ["First line", "Second line"]
    assert translate("a.xlsx", data, str) == data
    new = member(translate("a.xlsx", data), "xl/strings.xml")
    assert "".join(ElementTree.fromstring(new).itertext()) == (
        "FIRST LINE_x000D_\nSECOND LINE_x000d__x000A_"
    )


def test_a_sheet_may_be_in_utf_16() -> None:
    cells = '<c t="inlineStr"><is><t>A cell</t></is></c>'
    xml = f'<?xml version="1.0" encoding="UTF-16"?><worksheet xmlns="{SHEET}">{cells}</worksheet>'
    with zipfile.ZipFile(io.BytesIO(workbook(""))) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    data = zip_of(*(entries | {"xl/sheets/a.xml": xml.encode("utf-16")}).items())
    assert sentences_of("a.xlsx", data) == ["A cell"]
    with zipfile.ZipFile(io.BytesIO(translate("a.xlsx", data))) as archive:
        assert archive.read("xl/sheets/a.xml").decode("utf-16") == xml.replace("A cell", "A CELL")


def test_cells_that_name_the_columns_of_a_table_stay() -> None:
    """Other names in the header of a table are damage to Excel, which then drops the table."""
    table = (
        '<table xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        '<tableColumn id="1" name="Big &amp; small"/>'
        '<tableColumn id="2" name="Two_x000a_lines"/></table>'
    )
    strings = "<si><t>Big &amp; small</t></si><si><t>Two\nlines</t></si><si><t>A cell</t></si>"
    data = workbook(strings, ("xl/tables/table1.xml", table))
    assert sentences_of("a.xlsx", data) == ["A cell"]


P = "<text:p>{}</text:p>"
LIBRE = "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"


@pytest.mark.parametrize(
    ("body", "sentences"),
    [
        (P.format("A <text:span>big</text:span> dog"), ["A big dog"]),
        (P.format("One<text:tab/>Two<text:line-break/>words"), ["One", "Two words"]),
        (P.format("Two<text:s text:c='3'/>spaces"), ["Two spaces"]),
        (P.format("Type <text:text-input text:description='x'>a name</text:text-input> here"),
         ["Type a name here"]),
        (P.format(f"Pick <l:content-control xmlns:l='{LIBRE}'><l:list-item l:value='not this'/>"
                  "the red one</l:content-control> here"), ["Pick the red one here"]),
        (P.format("Page <text:page-number>seven</text:page-number> here"), ["Page here"]),
        ("<text:h>Head</text:h><text:list><text:list-item><text:p>Item</text:p></text:list-item>"
         "</text:list>", ["Head", "Item"]),
        (P.format("Seen<office:annotation><dc:creator>Me</dc:creator><text:p>not this</text:p>"
                  "</office:annotation> here"), ["Seen here"]),
        ("<text:tracked-changes><text:changed-region><text:deletion><text:p>not this</text:p>"
         "</text:deletion></text:changed-region></text:tracked-changes>" + P.format("Kept"),
         ["Kept"]),
        (P.format("A dog<text:note><text:note-citation>1</text:note-citation><text:note-body>"
                  "<text:p>In a note.</text:p></text:note-body></text:note> runs"),
         ["A dog runs", "In a note."]),
        (P.format("Before<draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box>"
                  "<svg:title>The box</svg:title><svg:desc>A long description</svg:desc>"
                  "</draw:frame> after"),
         ["Before after", "In a box", "The box", "A long description"]),
        ("<presentation:footer-decl>Our company</presentation:footer-decl>", ["Our company"]),
        ("<x:p xmlns:x='urn:x'>not this</x:p>", []),
    ],
)  # fmt: skip
def test_the_texts_of_open_document(body: str, sentences: list[str]) -> None:
    data = open_document(body)
    assert sentences_of("a.odt", data) == sentences
    assert translate("a.odt", data, str) == data
    before, after = (member(each, "content.xml") for each in (data, translate("a.odt", data)))
    assert shape_of(before) == shape_of(after) and after.count("not this") == before.count(
        "not this"
    )
    text = " ".join("".join(ElementTree.fromstring(after).itertext()).split())
    for sentence in sentences:
        assert all(each in text for each in sentence.upper().split())
    assert translate("a.odp", open_document(body, suffix=".odp")) != b""


INLINE = st.recursive(
    st.sampled_from(
        ["A dog. ", "runs &amp; sleeps", " ", "<text:tab/>", "<text:s/>", "<text:bookmark/>"]
        + [
            f'<text:bookmark-{end} text:name="{name}"/>'
            for end in ("start", "end")
            for name in "ab"
        ]
        + ["<text:note><text:note-body><text:p>A note.</text:p></text:note-body></text:note>"]
    ),
    lambda inner: st.builds(
        "<text:{0}>{1}</text:{0}>".format,
        st.sampled_from(["span", "a", "meta"]),
        st.lists(inner, max_size=4).map("".join),
    ),
    max_leaves=12,
)


@ANY_FILE
@given(st.lists(INLINE, min_size=1, max_size=6), st.booleans())
def test_the_elements_of_any_paragraph_stay(parts: list[str], whole: bool) -> None:
    data = open_document(P.format("".join(parts)))
    before = member(data, "content.xml")
    for by in (str.upper, lambda text: " ".join(text.split()[::-1]), lambda text: "x. y"):
        assert shape_of(member(translate("a.odt", data, by, whole), "content.xml")) == shape_of(
            before
        )


def test_headers_are_in_the_styles_and_the_type_stays_first() -> None:
    space = "urn:oasis:names:tc:opendocument:xmlns"
    styles = (
        f'<office:document-styles xmlns:office="{space}:office:1.0" xmlns:text="{space}:text:1.0">'
        "<text:p>A header</text:p></office:document-styles>"
    )
    new = translate(
        "a.odt", open_document(P.format("A dog"), ("styles.xml", styles), ("b.png", b"x"))
    )
    assert "A HEADER" in member(new, "styles.xml") and "A DOG" in member(new, "content.xml")
    with zipfile.ZipFile(io.BytesIO(new)) as archive:
        assert archive.namelist() == ["mimetype", "content.xml", "styles.xml", "b.png"]
        assert archive.infolist()[0].compress_type == zipfile.ZIP_STORED
    assert new[30:38] == b"mimetype"  # where other programs look for it


def with_link(name: str) -> bytes:
    """A package in which one entry is a symbolic link."""
    output = io.BytesIO(word(""))
    with zipfile.ZipFile(output, "a") as archive:
        link = zipfile.ZipInfo(name)
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return output.getvalue()


def text_zip(*entries: tuple[str, bytes | str]) -> bytes:
    return typed_zip(TYPES[".odt"], *entries)


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
DEEP = "<text:span>" * 300 + "</text:span>" * 300
CIPHER = '<encryption-data xmlns="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
MANIFEST = ("META-INF/manifest.xml", CIPHER)
DRM = '<e xmlns:e="http://www.w3.org/2001/04/xmlenc#">{}</e>'.format(
    '<e:CipherReference URI="OEBPS/page%200.xhtml"/>'
)
SLIDE_ENTITIES = ("ppt/presentation.xml", ENTITIES)
INSERTED = ("word/_rels/document.xml.rels", relationships(("aFChunk", "part.html")))
SEARCHED = relationships(("officeDocument", "../../etc/passwd"))
HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "password": (".xlsx", lambda: b"\xd0\xcf\x11\xe0" + b"\0" * 99, "password"),
    "link": (".docx", lambda: with_link("word/a.xml"), "link"),
    "other office file": (".pptx", lambda: workbook(""), "first element"),
    "word as slides": (".pptx", lambda: word(""), "contains no ppt/presentation.xml"),
    "document in a document": (".docx", lambda: word("", INSERTED), "another .* word/part.html"),
    "zip as workbook": (".xlsx", lambda: zip_of(("a", "b")), "no xl/workbook.xml"),
    "outside": (".pptx", lambda: zip_of(("_rels/.rels", SEARCHED)), "no etc/passwd"),
    "entities of a slide": (".pptx", lambda: zip_of(SLIDE_ENTITIES), "declarations"),
    "open slide": (".pptx", lambda: slides("<a:p>"), "not well-formed"),
    "slide bomb": (".pptx", lambda: slides("<a:p/>" * 200_001), "more than 200,000 elements"),
    "string bomb": (".xlsx", lambda: workbook("<si/>" * 200_001), "more than 200,000 elements"),
    "ratio": (".odt", lambda: open_document("", ("a", b"\0" * 2**26)), "too many"),
    "entries": (".odt", lambda: open_document("", *((f"{k}", "") for k in range(10_001))),
                "at most 10,000"),
    "depth": (".odt", lambda: open_document(P.format(DEEP)), "deep"),
    "entities of text": (".odt", lambda: text_zip(("content.xml", ENTITIES)), "declarations"),
    "wrong type": (".odt", lambda: open_document("", suffix=".odp"), "not 'application/vnd.*text'"),
    "no type": (".epub", lambda: zip_of(("a", "b")), "names no pages"),
    "no content": (".odt", text_zip, "no content.xml"),
    "encrypted text": (".odt", lambda: open_document("", MANIFEST), "encrypted"),
    "another element": (".odt", lambda: text_zip(("content.xml", "<x/>")), "first element"),
    "cut": (".odt", lambda: open_document(P.format("a"))[:-30], "damaged"),
    "drm": (".epub", lambda: book("<p>a</p>", others=(("META-INF/encryption.xml", DRM),)), "DRM"),
    "open page": (".epub", lambda: book("<p>a"), "not well-formed"),
    "entities of a page": (".epub", lambda: book(f"<p/>{ENTITIES}"), "not well-formed"),
    "wrong book": (".epub", lambda: open_document(""), "not 'application/epub"),
    "no book": (".epub", lambda: typed_zip(TYPES[".epub"], ("a", "b")), "names no pages"),
    "page bomb": (".epub", lambda: book("<i/>" * 200_001), "more than 200,000"),
    "absolute": (".epub", lambda: book("", others=(("/etc/passwd", ""),)), "out of the archive"),
    "parent": (".odt", lambda: open_document("", ("../a", "")), "out of the archive"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_office_files_are_refused_in_a_sentence(case: str) -> None:
    suffix, build, message = HOSTILE[case]
    with pytest.raises(DataError, match=message) as error:
        read(f"a{suffix}", build())
    assert f"a{suffix}" in str(error.value) and "\n" not in str(error.value)


def test_an_archive_in_an_archive_is_copied() -> None:
    bomb = zip_of(("a", b"\0" * 2**22))
    data = open_document(P.format("A dog"), ("Object 1", bomb))
    with zipfile.ZipFile(io.BytesIO(translate("a.odt", data))) as archive:
        assert archive.read("Object 1") == bomb


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("suffix", [".odt", ".odp"])
def test_two_entries_of_one_name_are_refused(suffix: str) -> None:
    with pytest.raises(DataError, match="twice"):
        read(f"a{suffix}", open_document("", ("content.xml", "<x/>"), suffix=suffix))


def test_titles_of_charts_and_texts_of_diagrams_are_translated() -> None:
    space = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    chart = f"{line(words('A chart'))}<c:v>East side</c:v></c:chartSpace>"
    chart = f"<c:chartSpace xmlns:c='urn:c' {space}>{chart}"
    files = {name: f"<x {space}>{line(words('A step'))}</x>" for name in ("data", "drawing")}
    rels = relationships(
        ("chart", "c.xml"), ("diagramData", "data.xml"), ("diagramDrawing", "drawing.xml")
    )
    data = zip_of(
        ("word/document.xml", member(word(f"<w:p>{run('text')}</w:p>"), "word/document.xml")),
        ("word/_rels/document.xml.rels", rels),
        ("word/c.xml", chart),
        *((f"word/{name}.xml", xml) for name, xml in files.items()),
    )
    new = translate("a.docx", data)
    assert "A CHART" in member(new, "word/c.xml") and "East side" in member(new, "word/c.xml")
    assert all("A STEP" in member(new, f"word/{name}.xml") for name in files)

"""Word's files: attributes, prefixes, and the parts in which the text is."""

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers.document_files import MAIN, main_xml, read, run, translate, word, zip_of

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.paragraph import Paragraph
from seq2seq.text.documents.markup import MAX_ELEMENTS

STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def relationships(*pairs: tuple[str, str], more: str = "") -> str:
    listed = "".join(
        f'<Relationship Id="r{k}" Type="{OFFICE}/{kind}" Target="{target}"{more}/>'
        for k, (kind, target) in enumerate(pairs)
    )
    return f'<Relationships xmlns="{PACKAGE}">{listed}</Relationships>'


def part(text: str, root: str = "hdr") -> str:
    return f'<w:{root} xmlns:w="{MAIN}"><w:p>{run(text)}</w:p></w:{root}>'


def texts_of(data: bytes) -> dict[str, str]:
    """The text of each part with XML in an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {
            name: "".join(ElementTree.fromstring(archive.read(name)).itertext())
            for name in archive.namelist()
            if name.endswith(".xml")
        }


def test_attributes_of_runs_stay_and_with_them_their_namespaces() -> None:
    body = (
        '<w:p><w:r w:rsidR="00AB12CD" xmlns:foo="urn:foo" foo:bar="1"><w:t>Ein </w:t></w:r>'
        '<w:r xmlns:v="urn:v"><w:rPr><w:b/></w:rPr><w:t>Hund</w:t><v:shape id="s"/></w:r>'
        '<w:r w:rsidR="00AB12CE" xmlns:foo="urn:foo" foo:bar="1"><w:t xml:space="preserve"> läuft.'
        "</w:t></w:r></w:p>"
    )
    xml = main_xml(translate("a.docx", word(body)))
    root = ElementTree.fromstring(xml)  # fails at a prefix without a namespace
    runs = list(root.iter(f"{{{MAIN}}}r"))
    assert {each.get("{urn:foo}bar") for each in runs} == {"1", None}
    assert f"{{{MAIN}}}rsidR" in runs[0].attrib
    assert [each.get("id") for each in root.iter("{urn:v}shape")] == ["s"]
    assert "".join(root.itertext()).split() == ["EIN", "HUND", "LÄUFT."]


@pytest.mark.parametrize("space", [MAIN, STRICT])
@pytest.mark.parametrize("prefix", ["w:", "ns0:", ""])
def test_what_counts_is_the_namespace_and_not_its_prefix(space: str, prefix: str) -> None:
    body = (
        '<w:p><w:pPr/><w:bookmarkStart w:id="0" w:name="b"/><w:r w:rsidR="1"><w:rPr><w:b/>'
        '</w:rPr><w:t>Ein Hund</w:t></w:r><w:bookmarkEnd w:id="0"/><w:r><w:t xml:space="preserve">'
        ' läuft weit.</w:t><w:br/></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r>'
        '<w:instrText> PAGE </w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
    )
    # Attributes without a prefix have no namespace, so they keep one.
    names = re.sub(r"<(/?)w:", rf"<\1{prefix}", body)
    names = names if prefix == "" else names.replace(" w:", f" {prefix}")
    declared = f'xmlns:{prefix[:-1]}="{space}"' if prefix else f'xmlns="{space}" xmlns:w="{space}"'
    xml = f"<{prefix}document {declared}><{prefix}body>{names}</{prefix}body></{prefix}document>"
    new = main_xml(translate("a.docx", zip_of(("word/document.xml", xml))))
    expected = main_xml(translate("a.docx", word(body)))

    def shape(xml: str) -> list[tuple[str, str | None]]:
        return [
            (each.tag.rpartition("}")[2], each.text) for each in ElementTree.fromstring(xml).iter()
        ]

    assert shape(new) == shape(expected)
    assert "EIN HUND" in new and "LÄUFT WEIT." in new
    assert len({each.tag.rpartition("}")[0] for each in ElementTree.fromstring(new).iter()}) == 1


def test_elements_of_other_vocabularies_are_no_paragraphs() -> None:
    body = f'<w:p>{run("text")}</w:p><x:p xmlns:x="urn:x"><x:r><x:t>not this</x:t></x:r></x:p>'
    assert "not this" in main_xml(translate("a.docx", word(body)))
    other = '<w:document xmlns:w="urn:x"><w:p><w:r><w:t>a</w:t></w:r></w:p></w:document>'
    with pytest.raises(DataError, match="first element"):
        read("a.docx", zip_of(("word/document.xml", other)))
    with pytest.raises(DataError, match="unbound prefix"):
        read("a.docx", zip_of(("word/document.xml", other.replace("xmlns:w", "w"))))


@pytest.mark.parametrize("absolute", [False, True])
def test_the_parts_are_those_that_the_relationships_name(absolute: bool) -> None:
    slash = "/" if absolute else ""
    own = "/word/" if absolute else ""
    data = zip_of(
        ("_rels/.rels", relationships(("officeDocument", f"{slash}word/document2.xml"))),
        ("word/document2.xml", part("main text", "document")),
        ("word/document.xml", part("an old one", "document")),
        (
            "word/_rels/document2.xml.rels",
            relationships(
                ("header", f"{own}header%20one.xml"),
                ("footnotes", f"{own}footnotes9.xml"),
                ("comments", f"{own}comments.xml"),
                ("footer", f"{own}missing.xml"),
            ),
        ),
        ("word/header one.xml", part("a header")),
        ("word/header7.xml", part("of nothing")),
        ("word/footnotes9.xml", part("a note")),
        ("word/comments.xml", part("a comment")),
    )
    assert texts_of(translate("a.docx", data)) == {
        "word/document2.xml": "MAIN TEXT",
        "word/document.xml": "an old one",
        "word/header one.xml": "A HEADER",
        "word/header7.xml": "of nothing",
        "word/footnotes9.xml": "A NOTE",
        "word/comments.xml": "a comment",
    }


def test_relationships_to_the_outside_name_no_part() -> None:
    data = zip_of(
        ("_rels/.rels", relationships(("officeDocument", "a.xml"), more=' TargetMode="External"')),
        ("a.xml", part("not this", "document")),
        ("word/document.xml", part("this", "document")),
    )
    assert texts_of(translate("a.docx", data))["word/document.xml"] == "THIS"
    data = zip_of(("_rels/.rels", relationships(("officeDocument", "../../etc/passwd"))))
    with pytest.raises(DataError, match="no etc/passwd"):
        read("a.docx", data)


def test_a_file_that_would_be_damaged_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = read("a.docx", word(f"<w:p>{run('text')}</w:p>"))
    monkeypatch.setattr(Paragraph, "write", lambda *arguments: "<w:p>not XML")
    with pytest.raises(
        DataError, match=r"a\.docx cannot be written.*would damage.*not well-formed"
    ):
        contents.write(["x"])


BOMBS: dict[str, Callable[[int], Any]] = {
    "paragraphs": lambda count: "<w:p/>" * count,
    "runs": lambda count: f"<w:p>{'<w:r/>' * count}</w:p>",
    "text": lambda count: f"<w:p><w:r>{'<w:t>a</w:t>' * count}</w:r></w:p>",
    "fields": lambda count: f"<w:p>{'<w:r><w:fldChar/></w:r>' * (count // 2)}</w:p>",
}


@pytest.mark.parametrize("name", BOMBS)
def test_too_many_elements_are_refused(name: str) -> None:
    data = word(BOMBS[name](MAX_ELEMENTS))
    assert len(data) < 30_000
    with pytest.raises(DataError, match=r"a\.docx cannot be read.*more than 200,000 elements"):
        read("a.docx", data)


def test_the_elements_of_all_parts_count_together() -> None:
    half = f"<w:p>{'<w:r/>' * (MAX_ELEMENTS // 2)}</w:p>"
    assert read("a.docx", word(half)).documents == []
    header = f'<w:hdr xmlns:w="{MAIN}">{half}</w:hdr>'
    with pytest.raises(DataError, match="more than 200,000 elements"):
        read("a.docx", word(half, ("word/header1.xml", header)))


def test_a_field_in_one_run_stands_inside_its_sentence() -> None:
    parts = [f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end")]
    field = f"<w:r>{'<w:instrText> PAGE </w:instrText>'.join(parts)}</w:r>"
    contents = read("a.docx", word(f"<w:p>{run('On ')}{field}{run(' it goes on.')}</w:p>"))
    assert [len(document.sentences) for document in contents.documents] == [1]
    assert field in main_xml(contents.write(["x <0>"]))


def field(instruction: str, result: str = "") -> list[str]:
    """The elements of a field, which may stand in one run or in several."""
    marks = [f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end")]
    return [marks[0], f"<w:instrText>{instruction}</w:instrText>", marks[1], result, marks[2]]


def sentences_of(data: bytes) -> list[str]:
    return [each for document in read("a.docx", data).documents for each in document.sentences]


RAISED = '<w:vertAlign w:val="{}script"/>'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
TEXT = '<w:t xml:space="preserve">{}</w:t>'
BOX = '<w14:checkbox xmlns:w14="urn:w14"/>'
RUBY = "<w:r><w:rPr><w:b/></w:rPr><w:ruby><w:rt>{}</w:rt><w:rubyBase>{}</w:rubyBase></w:ruby></w:r>"


@pytest.mark.parametrize(
    ("body", "sentences"),
    [
        (run("Hund") + "<w:r><w:tab/></w:r>" + run("12,50") + "<w:r><w:ptab/></w:r>" + run("Kind"),
         ["Hund", "Kind"]),
        (f"<w:r>{TEXT.format('Hund')}<w:tab/>{TEXT.format('Kind')}</w:r>", ["Hund", "Kind"]),
        (run("Hund") + run("2", RAISED.format("super")) + run(" läuft"), ["Hund läuft"]),
        (run("Hund") + run("[3]", RAISED.format("sub")) + run(" läuft"), ["Hund läuft"]),
        (run("Am 1") + run("er", RAISED.format("super")) + run(" Mai"), ["Am 1er Mai"]),
        (f"{run('Vor')}<mc:AlternateContent {MC}><mc:Choice>{run('Hund')}</mc:Choice><mc:Fallback>"
         f"{run('Kind')}</mc:Fallback></mc:AlternateContent>{run('Nach')}",
         ["Vor", "Hund", "Kind", "Nach"]),
        (run("Ein ") + RUBY.format(run("x"), run("Hund")) + run(" läuft"), ["Ein Hund läuft"]),
        (f"<w:r>{TEXT.format('Hund. Seite ')}{''.join(field('PAGE', TEXT.format('7')))}</w:r>",
         ["Hund.", "Seite"]),
        (f"<w:sdt><w:sdtPr>{BOX}</w:sdtPr><w:sdtContent>{run('☐')}</w:sdtContent></w:sdt>"
         f"{run(' Hund')}", ["Hund"]),
        ("".join(f"<w:r>{each}</w:r>" for each in field('HYPERLINK "a"', f"{TEXT.format('Hund ')}"
         f"</w:r><w:r>{'</w:r><w:r>'.join(field('PAGEREF a', TEXT.format('7')))}")), ["Hund"]),
        (f"<w:r>{field('')[-1]}{TEXT.format('Hund')}</w:r>", ["Hund"]),
    ],
)  # fmt: skip
def test_the_text_of_a_paragraph_is_translated(body: str, sentences: list[str]) -> None:
    data = word(f"<w:p>{body}</w:p>")
    contents = read("a.docx", data)
    assert sentences_of(data) == sentences and contents.problems == []
    assert translate("a.docx", data, str) == data
    before, after = (
        ElementTree.fromstring(main_xml(each)) for each in (data, translate("a.docx", data))
    )
    assert "".join(after.itertext()).upper() == "".join(before.itertext()).upper()
    text = "".join(each.text or "" for each in after.iter(f"{{{MAIN}}}t"))
    assert all(part in text for sentence in sentences for part in sentence.upper().split())
    left = {f"{{{MAIN}}}{name}" for name in ("r", "rPr", "t", "b", "vertAlign")}
    assert [each.tag for each in before.iter() if each.tag not in left] == [
        each.tag for each in after.iter() if each.tag not in left
    ]


def test_a_note_keeps_its_place_and_its_formatting() -> None:
    raised = RAISED.format("super")
    body = run("Der Hund") + run("2", raised) + run(" schläft.")
    xml = main_xml(translate("a.docx", word(f"<w:p>{body}</w:p>")))
    assert re.findall(r"<w:rPr>(.*?)</w:rPr><w:t[^>]*>(.*?)</w:t>", xml) == [(raised, "2")]
    assert "".join(ElementTree.fromstring(xml).itertext()) == "DER HUND2 SCHLÄFT."


@pytest.mark.parametrize(
    "body",
    [
        f"<w:r>{''.join(field('HYPERLINK a', TEXT.format('der Hund')))}</w:r>",
        f"<w:r><w:ruby><w:rubyBase>{run('der Hund')}</w:rubyBase></w:ruby><w:t>2</w:t></w:r>",
        f"<w:r><w:t>der Hund</w:t>{field('')[0]}</w:r><w:r>{field('')[-1]}</w:r>",
        f'<x:new xmlns:x="urn:x">{run("der Hund")}</x:new>',
    ],
)
def test_text_that_cannot_be_translated_is_named(body: str) -> None:
    assert sentences_of(word(f"<w:p>{body}</w:p>")) == []
    (problem,) = read("a.docx", word(f"<w:p>{body}</w:p><w:p>{run('text')}</w:p>")).problems
    assert "word/document.xml" in problem and "der Hund" in problem
    hidden = f"<w:moveFrom>{run('der Hund')}</w:moveFrom><w:fldSimple>{run('Titel')}</w:fldSimple>"
    assert read("a.docx", word(f"<w:p>{hidden}</w:p>")).problems == []


def test_python_docx_opens_what_is_written() -> None:
    package = pytest.importorskip("docx")
    document = package.Document()
    document.add_heading("ein titel", 1)
    paragraph = document.add_paragraph("ein ")
    paragraph.add_run("fetter").bold = True
    paragraph.add_run(" hund")
    document.add_table(1, 1).cell(0, 0).text = "eine zelle"
    document.sections[0].header.paragraphs[0].text = "ein kopf"
    file = io.BytesIO()
    document.save(file)
    new = package.Document(io.BytesIO(translate("a.docx", file.getvalue())))
    assert [each.text for each in new.paragraphs] == ["EIN TITEL", "EIN FETTER HUND"]
    assert [run.text for run in new.paragraphs[1].runs if run.bold] == ["FETTER"]
    assert new.tables[0].cell(0, 0).text == "EINE ZELLE"
    assert new.sections[0].header.paragraphs[0].text == "EIN KOPF"
    assert new.paragraphs[0].style.name == "Heading 1"


def test_a_hyphen_that_ends_no_line_is_a_hyphen() -> None:
    """Word writes it as an element, also inside a word."""
    body = f"<w:r>{TEXT.format('Die U')}<w:noBreakHyphen/>{TEXT.format('Bahn')}</w:r>"
    data = word(f"<w:p>{body}</w:p>")
    assert sentences_of(data) == ["Die U-Bahn"]
    assert translate("a.docx", data, str) == data
    assert "DIE U-BAHN<" in main_xml(translate("a.docx", data))

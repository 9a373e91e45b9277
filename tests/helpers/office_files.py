"""Files of office programs and books, written by hand."""

import io
import zipfile

from helpers.document_files import zip_of

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
TYPES = {
    ".odt": "application/vnd.oasis.opendocument.text",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".epub": "application/epub+zip",
}
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)


def relationships(*pairs: tuple[str, str]) -> str:
    listed = "".join(f'<Relationship Type="{OFFICE}/{kind}" Target="{to}"/>' for kind, to in pairs)
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{space}">{listed}</Relationships>'


def slides(*bodies: str, notes: str = "") -> bytes:
    """A presentation with a slide for each text body, and notes on the first."""
    names = [("slide", f"slides/slide{k}.xml") for k in range(len(bodies))]
    space = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}"'
    files = [
        (f"ppt/slides/slide{k}.xml", f"<p:sld {space}><p:cSld>{body}</p:cSld></p:sld>")
        for k, body in enumerate(bodies)
    ]
    if notes:
        files.append(
            ("ppt/slides/_rels/slide0.xml.rels", relationships(("notesSlide", "../notes/n.xml")))
        )
        files.append(("ppt/notes/n.xml", f"<p:notes {space}>{notes}</p:notes>"))
    return zip_of(
        ("_rels/.rels", relationships(("officeDocument", "ppt/presentation.xml"))),
        ("ppt/presentation.xml", f"<p:presentation {space}/>"),
        ("ppt/_rels/presentation.xml.rels", relationships(*names)),
        *files,
    )


def workbook(strings: str, *others: tuple[str, bytes | str], sheet: str = "<sheetData/>") -> bytes:
    """A workbook with shared strings and one sheet."""
    return zip_of(
        ("_rels/.rels", relationships(("officeDocument", "xl/workbook.xml"))),
        ("xl/workbook.xml", f'<workbook xmlns="{SHEET}"/>'),
        (
            "xl/_rels/workbook.xml.rels",
            relationships(("sharedStrings", "strings.xml"), ("worksheet", "sheets/a.xml")),
        ),
        ("xl/strings.xml", f'<sst xmlns="{SHEET}">{strings}</sst>'),
        ("xl/sheets/a.xml", f'<worksheet xmlns="{SHEET}">{sheet}</worksheet>'),
        *others,
    )


def typed_zip(kind: str, *entries: tuple[str, bytes | str]) -> bytes:
    """An archive whose first entry says its type, uncompressed."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", kind, zipfile.ZIP_STORED)
        for name, data in entries:
            archive.writestr(name, data)
    return output.getvalue()


def open_document(body: str, *others: tuple[str, bytes | str], suffix: str = ".odt") -> bytes:
    names = ("office", "text", "draw", "table", "presentation")
    spaces = " ".join(f'xmlns:{name}="{OPEN}:{name}:1.0"' for name in names)
    spaces += f' xmlns:svg="{OPEN}:svg-compatible:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    spaces += f' xmlns:drawing="{OPEN}:drawing:1.0"'
    content = f"<office:document-content {spaces}><office:body>{body}</office:body>"
    return typed_zip(
        TYPES[suffix], ("content.xml", f"{content}</office:document-content>"), *others
    )


def book(*pages: str, more: str = "", others: tuple[tuple[str, bytes | str], ...] = ()) -> bytes:
    """A book in which each page is the body of an XHTML file."""
    items = "".join(
        f'<item id="p{k}" href="page%20{k}.xhtml" media-type="application/xhtml+xml"/>'
        for k in range(len(pages))
    )
    order = "".join(f'<itemref idref="p{k}"/>' for k in reversed(range(len(pages))))
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}{more}</manifest>'
        f"<spine>{order}</spine></package>"
    )
    xhtml = '<html xmlns="http://www.w3.org/1999/xhtml"><head/><body>{}</body></html>'
    files = [(f"OEBPS/page {k}.xhtml", xhtml.format(page)) for k, page in enumerate(pages)]
    return typed_zip(
        TYPES[".epub"],
        ("META-INF/container.xml", CONTAINER),
        ("OEBPS/book.opf", package),
        *files,
        *others,
    )


def member(data: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()

"""The elements of XML formats in which text is: paragraphs, and what may stand in a sentence."""

import re
from typing import NamedTuple

ANY, NEVER = re.compile(".*", re.S), re.compile("(?!)")
OFFICE = r"http://(?:schemas\.openxmlformats\.org|purl\.oclc\.org/ooxml)/"
OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns:"
# Elements whose attributes describe a picture, a shape or a table.
DESCRIBED = re.compile(r"\S+ (?:docPr|cNvPr)|w:tbl(?:Caption|Description)")
DESCRIPTIONS = {"descr", "title", "val"}


class Dialect(NamedTuple):
    """An XML format with paragraphs. In patterns, the names of its own elements begin with `w:`;
    those of others have their namespace and a space before the name.

    Attributes:
        namespace: namespaces of its elements.
        paragraphs: elements that contain text. They may be nested: a footnote is inside the
            paragraph that it belongs to.
        root: first element of a file.
        has_runs: True if text is in runs, as in Word; otherwise, text and elements are mixed.
        omitted: elements whose paragraphs are not translated: comments and deleted text.
        cells: characters of a text that end a sentence.
        space: attribute of a text by which its white space is kept.
        around, blanks, ending: in mixed text, elements around text, elements that appear as a
            space, and elements that end a sentence. All others are copied.
    """

    namespace: re.Pattern[str]
    paragraphs: re.Pattern[str]
    root: re.Pattern[str] = ANY
    has_runs: bool = True
    omitted: re.Pattern[str] = NEVER
    cells: re.Pattern[str] = re.compile("(\t+)")
    space: str = ' xml:space="preserve"'
    around: re.Pattern[str] = NEVER
    blanks: re.Pattern[str] = NEVER
    ending: re.Pattern[str] = NEVER


# Files as programs save them by default, and strict Open XML.
WORD = Dialect(
    re.compile(rf"{OFFICE}wordprocessingml/(?:2006/)?main"), re.compile("w:p"), re.compile("w:.*")
)
# Text in shapes, diagrams and charts: of slides, and of other files.
DRAWING = Dialect(re.compile(rf"{OFFICE}drawingml/(?:2006/)?main"), re.compile("w:p"), space="")
SHEET = Dialect(
    re.compile(rf"{OFFICE}spreadsheetml/(?:2006/)?main"),
    re.compile("w:si|w:is"),
    re.compile("w:(?:sst|worksheet)"),
    cells=re.compile(r"((?:[\t\r\n]|_x000[9aAdD]_)+)"),  # Excel escapes characters like this
)
# Main parts, which contain no text.
WORKBOOK = Dialect(SHEET.namespace, NEVER, re.compile("w:workbook"))
PRESENTATION = Dialect(
    re.compile(rf"{OFFICE}presentationml/(?:2006/)?main"), NEVER, re.compile("w:presentation")
)
TEXT = Dialect(
    re.compile(f"{OPEN_DOCUMENT}text:1.0"),
    re.compile(
        "w:(?:p|h|index-title-template)|"
        f"{OPEN_DOCUMENT}(?:svg-compatible:1.0 (?:title|desc)|"
        "presentation:1.0 (?:header|footer)-decl)"
    ),
    re.compile(f"{OPEN_DOCUMENT}office:1.0 document-(?:content|styles)"),
    has_runs=False,
    omitted=re.compile(f"w:tracked-changes|{OPEN_DOCUMENT}office:1.0 annotation"),
    cells=NEVER,
    around=re.compile(
        "w:(?:span|a|meta|meta-field|text-input|ruby|ruby-base)|"
        "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0 content-control"
    ),
    blanks=re.compile("w:(?:s|line-break)"),
    ending=re.compile("w:tab"),
)
# The table of contents of a book.
CONTENTS = Dialect(
    re.compile("http://www.daisy.org/z3986/2005/ncx/"),
    re.compile("w:text"),
    has_runs=False,
    cells=NEVER,
)

"""Files of office programs: translates their paragraphs and keeps everything else in the archive.

Open XML (.docx, .pptx, .xlsx) and OpenDocument (.odt, .odp).
"""

import posixpath
import re
from collections.abc import Iterator
from functools import partial

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import dialects
from seq2seq.text.documents.files.archives import Archive, check_type, read_archive
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.dialects import DRAWING, SHEET, TEXT, WORD, Dialect
from seq2seq.text.documents.files.parts import archive_path, find_nodes, find_passages, open_parts

RELATIONSHIPS = re.compile("http://schemas.openxmlformats.org/package/2006/relationships")
Kinds = dict[str, Dialect]  # of parts, by the end of the type of their relationship
# Parts that may contain text; charts and shapes of a sheet are not related to it directly.
PARTS: Kinds = {
    **dict.fromkeys(("header", "footer", "footnotes", "endnotes"), WORD),
    **dict.fromkeys(("slide", "notesSlide", "chart", "diagramData", "diagramDrawing"), DRAWING),
    **dict.fromkeys(("sharedStrings", "worksheet"), SHEET),
}
# For each suffix, the usual name of the main part, and its kind.
PACKAGES = {
    ".docx": ("word/document.xml", WORD),
    ".pptx": ("ppt/presentation.xml", dialects.PRESENTATION),
    ".xlsx": ("xl/workbook.xml", dialects.WORKBOOK),
}
# Tables and pivot tables of a workbook, whose columns have the names of cells.
TABLES = re.compile(r"xl/(?:tables/table|pivotCache/pivotCacheDefinition)[^/]*\.xml")
COLUMNS = {"w:tableColumn", "w:cacheField"}
TYPES = {
    ".odt": "application/vnd.oasis.opendocument.text",
    ".odp": "application/vnd.oasis.opendocument.presentation",
}


def open_package(data: bytes, cut: Cutter, *, suffix: str) -> Contents:
    """The contents of an Open XML file. Raises: DataError if the data is not such a file."""
    archive, (main, kind) = read_archive(data), PACKAGES[suffix]
    kinds = {"officeDocument": kind, **PARTS}
    main = next((name for name, _ in find_related(archive, "", kinds)), main)
    if main not in archive:
        raise DataError(f"it is not a {suffix} file: it contains no {main}")
    for name, _ in find_related(archive, main, {"aFChunk": WORD}):
        raise DataError(f"it contains another document, {name}: open it in Word, and save it again")
    columns = frozenset(find_columns(archive))
    parts = locate_parts(archive, main, kinds)
    finders = {name: partial(find_passages, kind, columns) for name, kind in parts.items()}
    return open_parts(data, archive, finders, cut)


def open_text(data: bytes, cut: Cutter, *, suffix: str) -> Contents:
    """The contents of an OpenDocument file. Raises: DataError if the data is not such a file."""
    archive = read_archive(data)
    check_type(archive, TYPES[suffix])
    if "content.xml" not in archive:
        raise DataError(f"it is not an {suffix} file: it contains no content.xml")
    if b"encryption-data" in archive.get("META-INF/manifest.xml", b""):
        raise DataError("it is encrypted: save it without a password")
    find = partial(find_passages, TEXT, frozenset())
    names = [name for name in ("content.xml", "styles.xml") if name in archive]
    return open_parts(data, archive, dict.fromkeys(names, find), cut)


def locate_parts(archive: Archive, main: str, kinds: Kinds) -> Kinds:
    """The parts with text, found by relationships from the main one, or by their names if there are
    none. Sheets can be huge, and have texts only if a program does not share these.
    """
    found = {main: "officeDocument"}
    waiting = [main]
    for part in waiting:
        for name, kind in find_related(archive, part, kinds):
            if name in archive and name not in found:
                found[name] = kind
                waiting.append(name)
    if len(found) == 1:
        stems = {name: re.sub(r"\d*\.xml$", "", posixpath.basename(name)) for name in archive}
        found |= {name: stem for name, stem in stems.items() if stem in kinds}
    return {
        name: kinds[kind]
        for name, kind in found.items()
        if kind != "worksheet" or b"inlineStr" in archive[name].replace(b"\0", b"")  # UTF-16
    }


def find_related(archive: Archive, part: str, kinds: Kinds) -> Iterator[tuple[str, str]]:
    """Names and kinds of related parts: those that `part`, or the archive if `part` is empty,
    refers to.
    """
    folder, name = posixpath.split(part)
    file = posixpath.join(folder, "_rels", f"{name}.rels")
    for node in find_nodes(archive, file, RELATIONSHIPS, {"w:Relationship"}):
        kind = node.attribute("Type").rpartition("/")[2]
        if kind in kinds and node.attribute("TargetMode") != "External":
            yield archive_path(folder, node.attribute("Target")), kind


def find_columns(archive: Archive) -> Iterator[str]:
    """The names of the columns of tables. Cells with these names must stay, since programs take
    other cells in the first row of a table for damage.
    """
    for name in filter(TABLES.fullmatch, archive):
        for node in find_nodes(archive, name, SHEET.namespace, COLUMNS):
            yield re.sub("_x000[aA]_", "\n", node.attribute("name"))

"""Word files (.docx): translates the paragraphs and keeps everything else in the archive."""

import io
import posixpath
import re
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import unquote

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.encodings import XML, EncodedText
from seq2seq.text.documents.files.paragraph import Paragraph
from seq2seq.text.documents.markup import check_count
from seq2seq.text.documents.xml_markup import parse_xml

# Namespaces of files as Word saves them by default, and of strict Open XML.
WORD = re.compile(
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main|"
    "http://purl.oclc.org/ooxml/wordprocessingml/main"
)
RELATIONSHIPS = re.compile("http://schemas.openxmlformats.org/package/2006/relationships")
MAIN = "word/document.xml"
# Parts read besides the main one: by the end of their relationship type, or by name if the archive
# has no relationships.
OTHERS = {"header", "footer", "footnotes", "endnotes"}
PARTS = re.compile(r"word/(?:header|footer|footnotes|endnotes)\d*\.xml")
LONGEST = 2**24  # total bytes of XML to read
# Limits for an archive, checked before anything is unpacked.
MAX_ENTRIES = 10_000
MAX_UNPACKED = 2**28  # total bytes
MAX_RATIO = 100  # of unpacked to packed bytes, beyond the allowance below
FREE = 2**24  # bytes that any archive may unpack to
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class WordPart:
    """An XML file with paragraphs. They may be nested: the paragraphs of a text box are inside the
    paragraph to which the box is anchored.

    Attributes:
        paragraphs: paragraphs that contain sentences.
        lost: texts that cannot be translated.
        count: number of elements in the file.

    Raises: DataError if the data is not Word's XML, is not well-formed, or has too many elements.
    """

    def __init__(self, data: bytes, cut: Cutter):
        self._file = EncodedText.read(data, XML)
        tree = parse_xml(self._file.text, WORD, "w:")
        if not any(node.name.startswith("w:") for node in tree.children):
            raise DataError("it contains no Word elements")
        nodes = [node for node in tree.walk() if node.name]
        self.count = len(nodes)
        self.lost: list[str] = []
        paragraphs = (Paragraph(node, cut, self.lost) for node in nodes if node.name == "w:p")
        self.paragraphs = [each for each in paragraphs if each.document.sentences]
        self._begins = [each.node.begin for each in self.paragraphs]

    def write(self, translated: Sequence[str]) -> bytes:
        """The file with translated paragraphs."""
        return self._file.encode(self._render(translated, 0, len(self._file.text)))

    def _render(self, translated: Sequence[str], begin: int, end: int) -> str:
        """A span of the file, in which the paragraphs that begin there are translated."""
        text, parts, place = self._file.text, [], begin
        for k in range(bisect_left(self._begins, begin), bisect_left(self._begins, end)):
            paragraph = self.paragraphs[k]
            if paragraph.node.begin >= place:  # else it is inside the previous one
                new = paragraph.write(translated[k], partial(self._render, translated))
                parts += [text[place : paragraph.node.begin], new]
                place = paragraph.node.end
        return "".join([*parts, text[place:end]])


def open_docx(data: bytes, cut: Cutter) -> Contents:
    """The contents of a .docx file. Raises: DataError if the data is not a .docx file."""
    archive = read_archive(data)
    main = next(find_related(archive, "", {"officeDocument"}), MAIN)
    if main not in archive:
        raise DataError(f"it is not a .docx file: it contains no {main}")
    others = [*find_related(archive, main, OTHERS)] or filter(PARTS.fullmatch, archive)
    files = {name: archive[name] for name in (main, *others) if name in archive}
    if sum(map(len, files.values())) > LONGEST:
        raise DataError(f"it has more than {LONGEST:,} bytes of XML: cut it into several files")
    parts: dict[str, WordPart] = {}
    count = 0
    for name, file in files.items():
        try:
            parts[name] = WordPart(file, cut)
            count += parts[name].count
            check_count(count)
        except DataError as error:
            raise DataError(f"in {name}: {error}") from None
    documents = [each.document for part in parts.values() for each in part.paragraphs]
    problems = [
        f"in {name}: {text[:60]!r} is not translated: translate it by hand"
        for name, part in parts.items()
        for text in part.lost
    ]

    def write(translated: Sequence[str]) -> bytes:
        texts, changes = iter(translated), {}
        for name, part in parts.items():
            changes[name] = part.write([next(texts) for _ in part.paragraphs])
        return replace_entries(data, changes)

    return Contents(documents, write, problems)


def find_related(archive: Mapping[str, bytes], part: str, kinds: set[str]) -> Iterator[str]:
    """Names of related parts: those that `part`, or the archive if `part` is empty, refers to."""
    folder, name = posixpath.split(part)
    file = archive.get(posixpath.join(folder, "_rels", f"{name}.rels"), b"<none/>")
    for node in parse_xml(EncodedText.read(file, XML).text, RELATIONSHIPS).walk():
        kind = node.attribute("Type").rpartition("/")[2] if node.name else ""
        if kind in kinds and node.attribute("TargetMode") != "External":
            path = posixpath.join("/", folder, unquote(node.attribute("Target")))
            yield posixpath.normpath(path).lstrip("/")


def read_archive(data: bytes) -> dict[str, bytes]:
    """The files in an archive, by name and in order.

    Raises: DataError if the archive is damaged, or unlike those that office programs write.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_entries(archive.infolist(), len(data))
            return {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except DAMAGED as error:
        raise DataError(f"it is not a zip archive, or is damaged: {error}") from None


def check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Check the directory of an archive before anything is unpacked.

    Args:
        size: size of the archive in bytes.

    Raises: DataError if the archive is too large, unsafe, encrypted or unusual.
    """
    if len(entries) > MAX_ENTRIES:
        raise DataError(f"it contains {len(entries):,} files; at most {MAX_ENTRIES:,} are allowed")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > min(MAX_UNPACKED, FREE + MAX_RATIO * size):
        raise DataError(f"its {size:,} bytes unpack to {unpacked:,}, which is too many")
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name in names:
            raise DataError(f"it contains {name[:80]!r} twice")
        names.add(name)
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name:
            raise DataError(f"its path {name[:80]!r} leads out of the archive")
        if entry.flag_bits & 1:
            raise DataError("it is encrypted: save it without a password")
        if entry.compress_type not in METHODS:
            raise DataError(f"its file {name[:80]!r} is compressed by an unusual method")


def replace_entries(data: bytes, changes: Mapping[str, bytes]) -> bytes:
    """Replace files in an archive. If no file changes, the data is returned unchanged."""
    output = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as archive,
        zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        if all(archive.read(name) == new for name, new in changes.items()):
            return data
        written.comment = archive.comment
        for entry in archive.infolist():
            name = entry.filename
            written.writestr(entry, changes[name] if name in changes else archive.read(entry))
    return output.getvalue()

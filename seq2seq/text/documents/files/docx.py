"""Word's .docx: the paragraphs of its XML; all else in the archive stays."""

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import unquote

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.archive import read_archive, replace_entries
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.encodings import XML, EncodedText
from seq2seq.text.documents.files.paragraph import Paragraph
from seq2seq.text.documents.limits import check_count
from seq2seq.text.documents.xml_markup import parse_xml

# Namespaces, of files as Word saves them, and of strict ones.
WORD = re.compile(
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main|"
    "http://purl.oclc.org/ooxml/wordprocessingml/main"
)
RELATIONSHIPS = re.compile("http://schemas.openxmlformats.org/package/2006/relationships")
MAIN = "word/document.xml"
# Beside the main part, by the ends of the types of relationships; or by name if there are none.
OTHERS = {"header", "footer", "footnotes", "endnotes"}
PARTS = re.compile(r"word/(?:header|footer|footnotes|endnotes)\d*\.xml")
LONGEST = 2**24  # bytes of XML that is read in all


class WordPart:
    """An XML file with paragraphs. They may stand in one another, as those of a box do in the one
    that the box is anchored in.

    Attributes:
        paragraphs: those with sentences.
        lost: the texts that cannot be translated.
        count: of its elements.

    Raises: DataError if it is not such a file, or not well-formed, and for too many elements.
    """

    def __init__(self, data: bytes, cut: Cutter):
        self._file = EncodedText.read(data, XML)
        tree = parse_xml(self._file.text, WORD, "w:")
        if not any(node.name.startswith("w:") for node in tree.children):
            raise DataError("it is not in the vocabulary of Word")
        nodes = [node for node in tree.walk() if node.name]
        self.count = len(nodes)
        self.lost: list[str] = []
        paragraphs = (Paragraph(node, cut, self.lost) for node in nodes if node.name == "w:p")
        self.paragraphs = [each for each in paragraphs if each.document.sentences]
        self._begins = [each.node.begin for each in self.paragraphs]

    def write(self, translated: Sequence[str]) -> bytes:
        """The file with the texts of its paragraphs as they are translated."""
        return self._file.encode(self._render(translated, 0, len(self._file.text)))

    def _render(self, translated: Sequence[str], begin: int, end: int) -> str:
        """A span of the file, with the paragraphs that begin in it as they are translated."""
        text, parts, place = self._file.text, [], begin
        for k in range(bisect_left(self._begins, begin), bisect_left(self._begins, end)):
            paragraph = self.paragraphs[k]
            if paragraph.node.begin >= place:  # else it is in the one before
                new = paragraph.write(translated[k], partial(self._render, translated))
                parts += [text[place : paragraph.node.begin], new]
                place = paragraph.node.end
        return "".join([*parts, text[place:end]])


def open_docx(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if the data is not a .docx file, and for what `read_archive` refuses."""
    archive = read_archive(data)
    main = next(find_related(archive, "", {"officeDocument"}), MAIN)
    if main not in archive:
        raise DataError(f"it is no .docx file: there is no {main} in it")
    others = [*find_related(archive, main, OTHERS)] or filter(PARTS.fullmatch, archive)
    files = {name: archive[name] for name in (main, *others) if name in archive}
    if sum(map(len, files.values())) > LONGEST:
        raise DataError(f"it has more than {LONGEST:,} bytes of XML: cut it")
    parts: dict[str, WordPart] = {}
    count = 0
    for name, file in files.items():
        try:
            parts[name] = WordPart(file, cut)
            count += parts[name].count
            check_count(count)
        except DataError as error:
            raise DataError(f"{name} in it: {error}") from None
    documents = [each.document for part in parts.values() for each in part.paragraphs]
    problems = [
        f"{name} in it: {text[:60]!r} stays without a translation: a person should see to it"
        for name, part in parts.items()
        for text in part.lost
    ]
    return Contents(documents, partial(write_docx, data, parts), problems)


def find_related(archive: Mapping[str, bytes], part: str, kinds: set[str]) -> Iterator[str]:
    """The parts to which another part, or for an empty name the archive, has some relationships."""
    folder, name = posixpath.split(part)
    file = archive.get(posixpath.join(folder, "_rels", f"{name}.rels"), b"<none/>")
    for node in parse_xml(EncodedText.read(file, XML).text, RELATIONSHIPS).walk():
        kind = node.attribute("Type").rpartition("/")[2] if node.name else ""
        if kind in kinds and node.attribute("TargetMode") != "External":
            path = posixpath.join("/", folder, unquote(node.attribute("Target")))
            yield posixpath.normpath(path).lstrip("/")


def write_docx(data: bytes, parts: Mapping[str, WordPart], translated: Sequence[str]) -> bytes:
    """The archive with the paragraphs as they are translated; itself if they are as they were."""
    texts = iter(translated)
    new = {name: part.write([next(texts) for _ in part.paragraphs]) for name, part in parts.items()}
    return replace_entries(data, new)

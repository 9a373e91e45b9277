"""Word's .docx: the paragraphs of its XML; all else in the archive stays."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial

from seq2seq.documents.files.archive import read_archive, replace_entries
from seq2seq.documents.files.contents import Contents, Cutter, decode_file
from seq2seq.documents.files.paragraph import Paragraph
from seq2seq.documents.files.xml_tree import parse_xml, walk
from seq2seq.errors import DataError

PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes)\d*\.xml")
LONGEST = 2**24  # bytes of XML that is read in all


class WordPart:
    """An XML file with paragraphs. They may stand in one another, as those of a box do in the one
    that the box is anchored in.
    """

    def __init__(self, data: bytes, cut: Cutter):
        self._text = decode_file(data)
        nodes = [node for node in walk(parse_xml(self._text)) if node.name == "w:p"]
        paragraphs = [Paragraph(node, cut) for node in nodes]
        self.paragraphs = [each for each in paragraphs if each.document.sentences]
        self._begins = [each.node.begin for each in self.paragraphs]

    def write(self, translated: Sequence[str]) -> bytes:
        """The file with the texts of its paragraphs as they are translated."""
        return self._render(translated, 0, len(self._text)).encode()

    def _render(self, translated: Sequence[str], begin: int, end: int) -> str:
        """A span of the file, with the paragraphs that begin in it as they are translated."""
        parts, place = [], begin
        for k in range(bisect_left(self._begins, begin), bisect_left(self._begins, end)):
            paragraph = self.paragraphs[k]
            if paragraph.node.begin >= place:  # else it is in the one before
                new = paragraph.write(translated[k], partial(self._render, translated))
                parts += [self._text[place : paragraph.node.begin], new]
                place = paragraph.node.end
        return "".join([*parts, self._text[place:end]])


def open_docx(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if it is none, and for what `read_archive` refuses."""
    files = {name: each for name, each in read_archive(data).items() if PARTS.fullmatch(name)}
    if "word/document.xml" not in files:
        raise DataError("it is no .docx file: there is no word/document.xml in it")
    if sum(map(len, files.values())) > LONGEST:
        raise DataError(f"it has more than {LONGEST:,} bytes of XML: cut it")
    parts: dict[str, WordPart] = {}
    for name, file in files.items():
        try:
            parts[name] = WordPart(file, cut)
        except DataError as error:
            raise DataError(f"{name} in it: {error}") from None
    documents = [each.document for part in parts.values() for each in part.paragraphs]
    return Contents(documents, partial(write_docx, data, parts))


def write_docx(data: bytes, parts: Mapping[str, WordPart], translated: Sequence[str]) -> bytes:
    """The archive with the paragraphs as they are translated; itself if they are as they were."""
    texts = iter(translated)
    new = {name: part.write([next(texts) for _ in part.paragraphs]) for name, part in parts.items()}
    return replace_entries(data, new)

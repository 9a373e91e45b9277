"""The XML files in an archive: finds the texts in each, and writes them with translations."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.archives import replace_entries
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.dialects import DESCRIBED, DESCRIPTIONS, Dialect
from seq2seq.text.documents.files.encodings import XML, EncodedText, MarkupFormat
from seq2seq.text.documents.files.mixed import MixedText, Passage, Render, read_mixed
from seq2seq.text.documents.files.paragraph import Paragraph
from seq2seq.text.documents.html_markup import ATTRIBUTE
from seq2seq.text.documents.markup import check_count, unescape
from seq2seq.text.documents.xml_markup import escape_xml, parse_xml

LONGEST = 2**24  # total bytes of XML to read


class AttributeText(Passage):
    """The value of an attribute, such as the description of a picture."""

    def __init__(self, text: str, begin: int, end: int, cut: Cutter):
        self.begin, self.end = begin, end
        self._written = text[begin:end]
        # A line end is white space, unless it is a reference.
        self._plain = unescape(re.sub(r"[\t\r\n]", " ", self._written))[0]
        self.document = cut(self._plain)

    def write(self, translated: str, render: Render | None = None) -> str:
        if translated == self._plain:
            return self._written
        quoted = escape_xml(translated).replace('"', "&quot;").replace("'", "&#39;")
        return quoted.replace("\n", "&#10;")


# Finds the passages of a text in order. Arguments: the text, a cutter, and a list to which texts
# that cannot be translated are added.
Find = Callable[[str, Cutter, list[str]], Iterable[Passage]]


def find_passages(
    kind: Dialect, kept: Set[str], text: str, cut: Cutter, lost: list[str]
) -> Iterator[Passage]:
    """The passages of an XML file with paragraphs.

    Args:
        kept: texts of paragraphs that are not translated.
        text, cut, lost: as for `Find`.

    Raises: DataError if the file is not well-formed, has another root than files of its kind, or
        has too many elements.
    """
    root = parse_xml(text, kind.namespace, "w:")
    if not any(kind.root.fullmatch(each.name) for each in root.children):
        names = [each.name for each in root.children if each.name]
        raise DataError(f"its first element, {names[0][:80]}, is not that of such a file")
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if kind.omitted.fullmatch(node.name):
            continue
        waiting += node.children[::-1]
        if kind.paragraphs.fullmatch(node.name):
            if kept and node.content in kept:
                continue
            bare = node.child("w:t") if kind.has_runs else node
            if bare:
                yield MixedText(bare.inner, bare.stop, read_mixed(bare.children, kind), cut)
            else:
                yield Paragraph(node, kind, cut, lost)
        elif DESCRIBED.fullmatch(node.name):
            for match in ATTRIBUTE.finditer(text, node.begin, node.inner):
                if match[1].rpartition(":")[2] in DESCRIPTIONS:
                    yield AttributeText(text, match.start(2) + 1, match.end(2) - 1, cut)


class Part:
    """A file with passages.

    Attributes:
        passages: passages that contain sentences.
        lost: texts that cannot be translated.

    Raises: DataError if the file cannot be read.
    """

    def __init__(self, data: bytes, cut: Cutter, find: Find, format: MarkupFormat = XML):
        self._file = EncodedText.read(data, format)
        self.lost: list[str] = []
        found = find(self._file.text, cut, self.lost)
        self.passages = [each for each in found if each.document.sentences]
        self._begins = [each.begin for each in self.passages]

    def write(self, translated: Sequence[str]) -> bytes:
        """The file with translated passages."""
        return self._file.encode(self._render(translated, 0, 0, len(self._file.text)))

    def _render(self, translated: Sequence[str], first: int, begin: int, end: int) -> str:
        """A span of the file, in which the passages that begin there are translated, from number
        `first` on.
        """
        text, parts, place = self._file.text, [], begin
        first = max(first, bisect_left(self._begins, begin))
        for k in range(first, bisect_left(self._begins, end)):
            passage = self.passages[k]
            if passage.begin >= place:  # else it is inside the previous one
                parts += [text[place : passage.begin]]
                parts += [passage.write(translated[k], partial(self._render, translated, k + 1))]
                place = passage.end
        return "".join([*parts, text[place:end]])


def open_parts(
    data: bytes,
    archive: Mapping[str, bytes],
    kinds: Mapping[str, tuple[Find, MarkupFormat]],
    cut: Cutter,
) -> Contents:
    """The contents of an archive.

    Args:
        data: the archive.
        archive: its files by name.
        kinds: how to read the files that are translated, in order.

    Raises: DataError if a file cannot be read, or there is too much XML.
    """
    files = [archive[name] for name in kinds]
    if sum(map(len, files)) > LONGEST:
        raise DataError(f"it has more than {LONGEST:,} bytes of XML: cut it into several files")
    check_count(sum(file.count(b"<") - file.count(b"</") for file in files))
    parts: dict[str, Part] = {}
    for name, (find, format) in kinds.items():
        try:
            parts[name] = Part(archive[name], cut, find, format)
        except DataError as error:
            raise DataError(f"in {name}: {error}") from None
    documents = [each.document for part in parts.values() for each in part.passages]
    problems = [
        f"in {name}: {text[:60]!r} is not translated: translate it by hand"
        for name, part in parts.items()
        for text in part.lost
    ]

    def write(translated: Sequence[str]) -> bytes:
        texts, changes = iter(translated), {}
        for name, part in parts.items():
            changes[name] = part.write([next(texts) for _ in part.passages])
        return replace_entries(data, changes)

    return Contents(documents, write, problems)

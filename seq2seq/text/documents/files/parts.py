"""The XML files in an archive: finds the texts in each, and writes them with translations."""

import posixpath
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from urllib.parse import unquote

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.archives import Archive, replace_entries
from seq2seq.text.documents.files.contents import Contents, Cutter, join_contents
from seq2seq.text.documents.files.dialects import DESCRIBED, DESCRIPTIONS, Dialect
from seq2seq.text.documents.files.encodings import XML, EncodedText, MarkupFormat
from seq2seq.text.documents.files.mixed import MixedText, Render, read_mixed
from seq2seq.text.documents.files.paragraph import Paragraph
from seq2seq.text.documents.html_markup import ATTRIBUTE
from seq2seq.text.documents.markup import check_count, unescape
from seq2seq.text.documents.xml_markup import Node, escape_xml, parse_xml

LONGEST = 2**24  # total bytes of XML to read


class AttributeText:
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


# A span of a file, `begin` to `end`, that contains text to translate: the sentences of its
# `document`. Passages may be nested: the paragraphs of a text box are inside the paragraph to which
# the box is anchored.
Passage = MixedText | Paragraph | AttributeText
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
    for node in root.walk(kind.omitted):
        if kind.paragraphs.fullmatch(node.name) and not (kept and node.content in kept):
            bare = node.child("w:t") if kind.has_runs else node
            if bare:
                yield MixedText(bare.inner, bare.stop, read_mixed(bare.children, kind), cut)
            else:
                yield Paragraph(node, kind, cut, lost)
        elif DESCRIBED.fullmatch(node.name):
            for match in ATTRIBUTE.finditer(text, node.begin, node.inner):
                if match[1].rpartition(":")[2] in DESCRIPTIONS:
                    yield AttributeText(text, match.start(2) + 1, match.end(2) - 1, cut)


def read_passages(
    name: str, data: bytes, find: Find, cut: Cutter, format: MarkupFormat
) -> Contents:
    """The contents of a file with passages. Raises: DataError if the file cannot be read."""
    lost: list[str] = []
    try:
        file = EncodedText.read(data, format)
        passages = [each for each in find(file.text, cut, lost) if each.document.sentences]
    except DataError as error:
        raise DataError(f"in {name}: {error}") from None
    begins = [each.begin for each in passages]

    def render(translated: Sequence[str], first: int, begin: int, end: int) -> str:
        """A span of the file, in which the passages that begin there are translated, from number
        `first` on.
        """
        written, place = [], begin
        for k in range(max(first, bisect_left(begins, begin)), bisect_left(begins, end)):
            if begins[k] >= place:  # else it is inside the previous one
                new = passages[k].write(translated[k], partial(render, translated, k + 1))
                written += [file.text[place : begins[k]], new]
                place = passages[k].end
        return "".join([*written, file.text[place:end]])

    def write(translated: Sequence[str]) -> bytes:
        return file.encode(render(translated, 0, 0, len(file.text)))

    advice = "is not translated: translate it by hand"
    problems = [f"in {name}: {text[:60]!r} {advice}" for text in lost]
    return Contents([each.document for each in passages], write, problems)


def open_parts(
    data: bytes,
    archive: Archive,
    finders: Mapping[str, Find],
    cut: Cutter,
    format: MarkupFormat = XML,
) -> Contents:
    """The contents of an archive.

    Args:
        data: the archive.
        archive: its files by name.
        finders: functions that find the passages of the files that are translated, in order.
        format: format of these files.

    Raises: DataError if a file cannot be read, or there is too much XML.
    """
    files = [archive[name] for name in finders]
    if sum(map(len, files)) > LONGEST:
        raise DataError(f"it has more than {LONGEST:,} bytes of XML: cut it into several files")
    check_count(sum(file.count(b"<") - file.count(b"</") for file in files))
    parts = [
        read_passages(name, archive[name], find, cut, format) for name, find in finders.items()
    ]
    return join_contents(
        parts, lambda written: replace_entries(data, dict(zip(finders, written, strict=True)))
    )


def find_nodes(
    archive: Archive, name: str, vocabulary: re.Pattern[str], kinds: Set[str]
) -> Iterator[Node]:
    """The elements of some kinds in a file of an archive; none if there is no such file.

    Args:
        vocabulary: namespaces of the elements, whose names begin with `w:` in the result.
    """
    text = EncodedText.read(archive.get(name, b"<none/>"), XML).text
    return (node for node in parse_xml(text, vocabulary, "w:").walk() if node.name in kinds)


def archive_path(folder: str, address: str) -> str:
    """The path in an archive of a file to which a file in `folder` refers."""
    return posixpath.normpath(posixpath.join("/", folder, unquote(address))).lstrip("/")

"""The tokens of XML."""

import re
from collections.abc import Set
from dataclasses import dataclass
from itertools import pairwise
from xml.parsers import expat

from seq2seq.base.errors import DataError
from seq2seq.text.documents.html_markup import copy_token
from seq2seq.text.documents.limits import check_count
from seq2seq.text.documents.markup import Kind, Token

# Before the root: a declaration, and a document type that declares nothing itself. Others, in which
# entities can stand for files or grow without end, are refused as what XML does not allow there.
PROLOG = re.compile(r"\ufeff?\s*(?:<\?xml\b[^>]*+>\s*)?(?:<!DOCTYPE\b[^\[>]*+>)?")
ROOT = "x"  # around a text, which may have several roots, or none


@dataclass(frozen=True)
class XMLReader:
    """Reads the tokens of XML: `XMLReader()(text)`.

    An element stands inside a sentence if there is text beside it; else it is where sentences end.

    Attributes:
        copied: names of elements that are not translated, as those with translate="no".
        splitting: names of elements that end sentences.
        inline: names of elements that do not.
        outline: do other elements end sentences if there is no text beside them?
    """

    copied: Set[str] = frozenset()
    splitting: Set[str] = frozenset()
    inline: Set[str] = frozenset()
    outline: bool = True

    def __call__(self, text: str) -> list[Token]:
        """The tokens of a text.

        Raises: DataError if it is not well-formed, or has more than `MAX_ELEMENTS` elements.
        """
        match = PROLOG.match(text)
        start = match.end() if match else 0
        marks = find_marks(text[start:])
        places = [*(start + mark.begin for mark in marks), len(text)]
        tokens = [Token("block", 0, places[0])]
        depth = 0  # of elements in one that is not translated, and this one
        copied: list[str] = []  # its texts
        for mark, (begin, end) in zip(marks, pairwise(places), strict=True):
            if depth:
                depth += (mark.kind == "open") - (mark.kind == "close")
                tokens[-1] = tokens[-1]._replace(end=end)
                copied += [text[begin:end]] if mark.kind == "text" else []
                if not depth and tokens[-1].kind == "open":
                    tokens.append(copy_token(tokens.pop().begin, end, mark.name, copied))
            else:
                kind = mark.kind if self._is_inline(mark) else "block"
                tokens.append(Token(kind, begin, end, mark.name))
                is_copied = mark.name in self.copied or mark.translate == "no"
                depth = int(mark.kind == "open" and is_copied)
                copied = []
        return tokens

    def _is_inline(self, mark: "Mark") -> bool:
        if mark.kind not in ("open", "close"):
            return True
        is_beside_text = not self.outline or mark.parent is None or mark.parent.has_text
        return mark.name not in self.splitting and (mark.name in self.inline or is_beside_text)


@dataclass(eq=False, slots=True)
class Mark:
    """The beginning of a token; an element is that of its tag.

    Attributes:
        parent: the element around it; None for the root.
        has_text: does the element have text of its own, beside that of its elements?
    """

    kind: Kind
    begin: int
    parent: "Mark | None"
    name: str = ""
    translate: str = ""
    has_text: bool = False


class MarkFinder:
    """Finds the beginnings of the tokens of a text, in bytes of UTF-8."""

    def __init__(self, text: str, separator: str | None):
        self.marks: list[Mark] = []
        self._elements: list[Mark] = []  # that are open
        self._count = 0  # of elements, comments and the like
        self._parser = parser = expat.ParserCreate("utf-8", separator)
        self._is_raw = False  # in a section that is copied
        parser.StartElementHandler, parser.EndElementHandler = self._open, self._close
        parser.CharacterDataHandler = self._add_text
        parser.CommentHandler = lambda data: self._add("alone")
        parser.ProcessingInstructionHandler = lambda target, data: self._add("alone")
        parser.StartCdataSectionHandler = lambda: self._set_raw(True)
        parser.EndCdataSectionHandler = lambda: self._set_raw(False)
        parser.Parse(f"<{ROOT}>{text}</{ROOT}>".encode(), True)

    def _add(self, kind: Kind, name: str = "", translate: str = "") -> Mark:
        self._count += kind in ("open", "alone")
        check_count(self._count)
        parent = self._elements[-1] if self._elements else None
        mark = Mark(kind, self._parser.CurrentByteIndex, parent, name, translate)
        self.marks.append(mark)
        return mark

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._elements.append(self._add("open", name, attributes.get("translate", "")))

    def _close(self, name: str) -> None:
        self._elements.pop()
        self._add("close", name)

    def _add_text(self, data: str) -> None:
        if self._is_raw:
            return
        element = self._elements[-1]
        element.has_text = element.has_text or not data.isspace()
        if self.marks[-1].kind != "text":
            self._add("text")

    def _set_raw(self, is_raw: bool) -> None:
        self._is_raw = is_raw
        if is_raw:
            self._add("alone")


def find_marks(text: str, separator: str | None = None) -> list[Mark]:
    """The beginnings of the tokens of a text, in characters.

    Args:
        separator: between the namespace and the name of elements; None = names as in the text.

    Raises: DataError if it is not well-formed, or has more than `MAX_ELEMENTS` elements.
    """
    try:
        _, *marks, _end = MarkFinder(text, separator).marks
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise DataError(f"this is not well-formed XML: {error}") from None
    data = text.encode()
    place, characters = 0, 0
    for mark in marks:
        begin = mark.begin - len(f"<{ROOT}>")
        characters += len(data[place:begin].decode())
        place, mark.begin = begin, characters
    return marks

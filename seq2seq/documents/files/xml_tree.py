"""XML as a tree of places in its text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from seq2seq.documents.document import escape_text
from seq2seq.documents.markup import unescape
from seq2seq.documents.xml_markup import PROLOG, find_marks
from seq2seq.errors import DataError

MAX_DEPTH = 200  # of elements in one another
# Characters that XML cannot hold, not even as references.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CDATA, CDATA_END = "<![CDATA[", "]]>"


@dataclass(eq=False)
class Node:
    """An element of XML, or what stands beside elements, which has no name.

    Attributes:
        begin, end: of all of it.
        inner, stop: the end of the tag that opens it, and the begin of the one that closes it;
            `end` if it is a single tag.
        translate: the attribute of this name.
    """

    text: str = field(repr=False)
    name: str
    begin: int
    end: int
    inner: int
    stop: int
    translate: str = ""
    children: list["Node"] = field(default_factory=list)

    @property
    def markup(self) -> str:
        return self.text[self.begin : self.end]

    @property
    def is_single(self) -> bool:
        """Is it an element of a single tag, `<x/>`?"""
        return self.inner == self.end

    @property
    def opening(self) -> str:
        return self.text[self.begin : self.inner]

    @property
    def closing(self) -> str:
        return self.text[self.stop : self.end]

    @property
    def content(self) -> str:
        """The text in an element or of one that has no name, without comments and references."""
        if self.name:
            return "".join(child.content for child in self.children)
        if self.markup.startswith(CDATA):
            return self.markup[len(CDATA) : -len(CDATA_END)]
        return "" if self.markup.startswith("<") else unescape(self.markup)[0]

    def child(self, *names: str) -> "Node | None":
        """The first child with one of some names; the earlier names take precedence."""
        found = (each for name in names for each in self.children if each.name == name)
        return next(found, None)


def escape_xml(text: str) -> str:
    """A text as it stands between tags of XML."""
    return escape_text(FORBIDDEN.sub("", text))


def walk(node: Node) -> Iterator[Node]:
    """A node and all in it, in the order of the text."""
    waiting = [node]
    while waiting:
        yield (node := waiting.pop())
        waiting += node.children[::-1]


def parse_xml(text: str) -> Node:
    """A node around all of a text.

    Raises: DataError if it is not well-formed, declares entities, or is too deep.
    """
    match = PROLOG.match(text)
    start = match.end() if match else 0
    if "<!DOCTYPE" in text[start:]:
        raise DataError("it has a document type with declarations, which are not read")
    marks = find_marks(text[start:])
    root = Node(text, "", 0, len(text), 0, len(text))
    around = [root]
    ends = [*(start + mark.begin for mark in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=False):
        begin = start + mark.begin
        if mark.kind == "close":
            node = around.pop()
            node.stop, node.end = begin, end
            continue
        name = mark.name if mark.kind == "open" else ""
        node = Node(text, name, begin, end, end, end, mark.translate)
        around[-1].children.append(node)
        if mark.kind == "open":
            around.append(node)
            if len(around) > MAX_DEPTH:
                raise DataError(f"elements stand more than {MAX_DEPTH} deep in one another")
    return root

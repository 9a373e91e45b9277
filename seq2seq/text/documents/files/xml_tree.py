"""XML as a tree of places in its text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import escape_text
from seq2seq.text.documents.files.encodings import XML_DECLARATION, MarkupFormat
from seq2seq.text.documents.markup import unescape
from seq2seq.text.documents.xml_markup import PROLOG, find_marks

MAX_DEPTH = 200  # of elements in one another
# Characters that XML cannot hold, not even as references.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CDATA, CDATA_END = "<![CDATA[", "]]>"
PREFIX = re.compile(r"<([^\s/>:]+:)?")
ATTRIBUTE = re.compile(r"""\s([^\s=<>"']++)\s*+=\s*+("[^"]*"|'[^']*')""")


@dataclass(eq=False, slots=True)
class Node:
    """An XML element, or a text, comment or other markup, which has no name.

    Attributes:
        text: the text of the file.
        name: of an element. The prefix of a vocabulary that the caller of `parse_xml` names is the
            one that it gave, whatever the file has; names of others begin with their namespace and
            a space.
        begin, end: the place of all of it.
        inner, stop: the end of the opening tag and the begin of the closing tag; both are `end` for
            a single tag.
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
    def opening(self) -> str:
        return self.text[self.begin : self.inner]

    @property
    def closing(self) -> str:
        return self.text[self.stop : self.end]

    @property
    def prefix(self) -> str:
        """The prefix of the tag in the file, with its colon; empty if it has none."""
        match = PREFIX.match(self.text, self.begin)
        return (match and match[1]) or ""

    @property
    def content(self) -> str:
        """The text in an element, or of a text, without comments and references."""
        if self.name:
            return "".join(child.content for child in self.children)
        if self.text.startswith(CDATA, self.begin):
            return self.markup[len(CDATA) : -len(CDATA_END)]
        return "" if self.text.startswith("<", self.begin) else unescape(self.markup)[0]

    def child(self, *names: str) -> "Node | None":
        """The first child with one of some names; the earlier names take precedence."""
        return next((each for name in names for each in self.children if each.name == name), None)

    def attribute(self, name: str) -> str:
        """The value of an attribute, whatever its prefix; empty if there is none."""
        values = {
            match[1].rpartition(":")[2]: match[2][1:-1]
            for match in ATTRIBUTE.finditer(self.text, self.begin, self.inner)
            if not match[1].startswith("xmlns:")
        }
        return unescape(values.get(name, ""))[0]


def escape_xml(text: str) -> str:
    """A text as it stands between tags of XML."""
    return escape_text(FORBIDDEN.sub("", text))


def change_attributes(opening: str, **values: str) -> str:
    """An opening tag, instead of an opening or single one, with other values of some attributes;
    those whose value is empty are removed.
    """
    kept = ATTRIBUTE.sub(lambda match: "" if match[1] in values else match[0], opening)
    added = "".join(f' {name}="{value}"' for name, value in values.items() if value)
    return kept.removesuffix(">").removesuffix("/").rstrip() + added + ">"


def walk(node: Node) -> Iterator[Node]:
    """A node and all in it, in the order of the text."""
    waiting = [node]
    while waiting:
        yield (node := waiting.pop())
        waiting += node.children[::-1]


def refuse_declarations(*type: object) -> None:
    raise DataError("it has a document type with declarations, which are not read")


def check_well_formed(text: str) -> None:
    """Raises: DataError if a text is not well-formed, has a prefix without a namespace, or a
    document type with declarations.
    """
    parser = expat.ParserCreate("utf-8", " ")
    parser.StartDoctypeDeclHandler = refuse_declarations
    try:
        parser.Parse(PROLOG.sub("", text, count=1).encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise DataError(f"this is not well-formed XML: {error}") from None


XML = MarkupFormat(XML_DECLARATION, check_well_formed)


def parse_xml(text: str, vocabulary: re.Pattern[str], prefix: str = "") -> Node:
    """Parse a file into a node around all of it.

    Args:
        vocabulary: the namespaces of the elements that are looked for.
        prefix: of their names in the tree.

    Raises: DataError if it is not well-formed, declares entities, is too deep, or has too many
        elements: then the rest of it is not read.
    """
    check_well_formed(text)
    body = PROLOG.sub("", text, count=1)
    start = len(text) - len(body)
    marks = find_marks(body, " ")
    root = Node(text, "", 0, len(text), 0, len(text))
    around = [root]
    ends = [*(start + mark.begin for mark in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=False):
        begin = start + mark.begin
        if mark.kind == "close":
            node = around.pop()
            node.stop, node.end = begin, end
            continue
        node = Node(text, "", begin, end, end, end, mark.translate)
        around[-1].children.append(node)
        if mark.kind == "open":
            around.append(node)
            if len(around) > MAX_DEPTH:
                raise DataError(f"elements stand more than {MAX_DEPTH} deep in one another")
            space, _, local = mark.name.rpartition(" ")
            node.name = prefix + local if vocabulary.fullmatch(space) else mark.name
    return root

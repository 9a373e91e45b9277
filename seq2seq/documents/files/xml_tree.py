"""XML as a tree of places in its text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from seq2seq.documents.document import escape_text
from seq2seq.documents.limits import check_count
from seq2seq.documents.markup import unescape
from seq2seq.errors import DataError

MAX_DEPTH = 200  # of elements in one another
# Characters that XML cannot hold, not even as references.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CDATA, CDATA_END = "<![CDATA[", "]]>"
TAG_NAME = re.compile(r"</?([^\s/>]+)")
ATTRIBUTE = re.compile(r"""\s+([^\s=<>"']+)\s*=\s*("[^"]*"|'[^']*')""")


@dataclass(eq=False, slots=True)
class Node:
    """An XML element, or a text, comment or other markup, which has no name.

    Attributes:
        text: the text of the file.
        name: of an element. The prefix of a vocabulary that the caller of `parse_xml` names is the
            one that it gave, whatever the file has; names of others begin with {namespace}.
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
    def is_single(self) -> bool:
        """Whether this is an element of a single tag, `<x/>`."""
        return self.inner == self.end

    @property
    def opening(self) -> str:
        return self.text[self.begin : self.inner]

    @property
    def closing(self) -> str:
        return self.text[self.stop : self.end]

    @property
    def prefix(self) -> str:
        """The prefix of the tag in the file, with its colon; empty if it has none."""
        match = TAG_NAME.match(self.text, self.begin)
        prefix, colon, _ = match[1].rpartition(":") if match else ("", "", "")
        return prefix + colon

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
        found = (each for name in names for each in self.children if each.name == name)
        return next(found, None)

    def attribute(self, name: str) -> str:
        """The value of an attribute, whatever its prefix; empty if there is none."""
        found = (
            match[2][1:-1]
            for match in ATTRIBUTE.finditer(self.text, self.begin, self.inner)
            if match[1].rpartition(":")[2] == name and not match[1].startswith("xmlns:")
        )
        return unescape(next(found, ""))[0]


def escape_xml(text: str) -> str:
    """A text as it stands between tags of XML."""
    return escape_text(FORBIDDEN.sub("", text))


def change_attributes(opening: str, **values: str) -> str:
    """Give an opening or single tag other attributes; those whose value is empty are removed."""

    def change(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0]
        value = values.pop(match[1])
        return f' {match[1]}="{value}"' if value else ""

    opening = ATTRIBUTE.sub(change, opening)
    added = "".join(f' {name}="{value}"' for name, value in values.items() if value)
    end = "/>" if opening.endswith("/>") else ">"
    return opening.removesuffix(end).rstrip() + added + end


def walk(node: Node) -> Iterator[Node]:
    """A node and all in it, in the order of the text."""
    waiting = [node]
    while waiting:
        yield (node := waiting.pop())
        waiting += node.children[::-1]


def parse_xml(text: str, vocabulary: re.Pattern[str], prefix: str = "", count: int = 0) -> Node:
    """Parse a file into a node around all of it.

    Args:
        vocabulary: the namespaces of the elements that are looked for.
        prefix: of their names in the tree.
        count: elements that were counted before, in other parts of the same file.

    Raises: DataError if it is not well-formed, declares entities, is too deep, or has too many
        elements: then the rest of it is not read.
    """
    return TreeBuilder(text, vocabulary, prefix, count).root


def check_xml(text: str) -> None:
    """Raises: DataError if a text is not well-formed, or has a prefix without a namespace."""
    try:
        expat.ParserCreate("utf-8", " ").Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise DataError(f"this is not well-formed XML: {error}") from None


class TreeBuilder:
    """Builds the tree of a text while it is parsed; arguments as of `parse_xml`."""

    def __init__(self, text: str, vocabulary: re.Pattern[str], prefix: str, count: int):
        self.root = Node(text, "", 0, len(text), 0, len(text))
        self._text, self._data = text, text.encode("utf-8", "replace")
        self._vocabulary, self._prefix, self._count = vocabulary, prefix, count
        self._names: dict[str, str] = {}  # in the tree, of those that the parser gives
        self._around = [self.root]
        self._opened: Node | None = None  # whose opening tag ends where the next event is
        self._ended: Node | None = None  # that ends there
        self._is_text = self._is_raw = False  # the last event is text; is in a CDATA section
        self._byte, self._place = 0, 0  # of the last event
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler, parser.EndElementHandler = self._open, self._close
        parser.CharacterDataHandler = self._add_text
        parser.CommentHandler = lambda data: self._add_markup()
        parser.ProcessingInstructionHandler = lambda target, data: self._add_markup()
        parser.StartCdataSectionHandler = self._begin_raw
        parser.EndCdataSectionHandler = self._end_raw
        parser.StartDoctypeDeclHandler = self._check_type
        parser.SkippedEntityHandler = self._refuse_entity
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            raise DataError(f"this is not well-formed XML: {error}") from None
        self._end_last(len(text))

    def _end_last(self, place: int) -> None:
        """End what the last event began."""
        if self._opened:
            self._opened.inner = place
        if self._ended:
            self._ended.end = place
        self._opened = self._ended = None

    def _find_place(self) -> int:
        """End what the last event began. Returns: the place of the current event."""
        index = self._parser.CurrentByteIndex
        self._place += len(self._data[self._byte : index].decode())
        self._byte = index
        self._end_last(self._place)
        self._is_text = False
        return self._place

    def _add(self, name: str = "", translate: str = "") -> Node:
        place = self._find_place()
        node = Node(self._text, name, place, place, place, place, translate)
        self._around[-1].children.append(node)
        return node

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        check_count(self._count)
        if name not in self._names:
            space, _, local = name.rpartition(" ")
            is_known = self._vocabulary.fullmatch(space) is not None
            before = self._prefix if is_known else f"{{{space}}}" if space else ""
            self._names[name] = before + local
        translate = attributes.get("translate", "")
        self._opened = self._add(self._names[name], translate)
        self._around.append(self._opened)
        if len(self._around) > MAX_DEPTH:
            raise DataError(f"elements stand more than {MAX_DEPTH} deep in one another")

    def _close(self, name: str) -> None:
        place, node = self._find_place(), self._around.pop()
        node.stop = node.end = place
        self._ended = node

    def _add_text(self, data: str) -> None:
        if not self._is_raw and not self._is_text:
            self._ended = self._add()
            self._is_text = True

    def _add_markup(self) -> None:
        self._count += 1
        check_count(self._count)
        self._ended = self._add()

    def _begin_raw(self) -> None:
        self._add_markup()
        self._is_raw = True

    def _end_raw(self) -> None:
        self._is_raw = False

    def _check_type(self, name: str, system: str, public: str, has_declarations: bool) -> None:
        if has_declarations:
            raise DataError("it has a document type with declarations, which are not read")

    def _refuse_entity(self, name: str, is_parameter: bool) -> None:
        raise DataError(f"it has the entity &{name};, which it does not define")

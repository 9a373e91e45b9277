"""Parses XML into tokens or a tree whose nodes know their places in the text."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from xml.parsers import expat

from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import escape_text
from seq2seq.text.documents.html_markup import ATTRIBUTE, copy_token
from seq2seq.text.documents.markup import MAX_ELEMENTS, Kind, Token, check_count, unescape

MAX_DEPTH = 200  # of nested elements in a file
# Before the root: a declaration, and a document type without declarations of its own. A document
# type that declares entities, which can include files or expand without limit, is refused.
PROLOG = re.compile(r"\ufeff?\s*(?:<\?xml\b[^>]*+>\s*)?(?:<!DOCTYPE\b[^\[>]*+>)?")
ROOT = "x"  # name of an element put around the text, which may have no root, or several
# Characters that XML cannot contain, not even as references.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CDATA, CDATA_END = "<![CDATA[", "]]>"
PREFIX = re.compile(r"<([^\s/>:]+:)?")


@dataclass(eq=False, slots=True)
class Node:
    """An XML element with its content, or a text or comment node, which has an empty name.

    Attributes:
        text: whole text of the file.
        kind: `open` for an element, `text`, or `alone` for a comment, an instruction or CDATA.
        name: name of an element. If it belongs to the vocabulary given to `parse_xml`, it has the
            caller's prefix, whatever the prefix in the file; others have their namespace and a
            space before the name.
        translate: value of the attribute `translate`.
        begin, end: place of the node with its tags.
        inner, stop: end of the opening tag and start of the closing tag; both equal `end` for a
            single tag.
        has_text: whether the element itself contains text, not only its children.
    """

    text: str = field(repr=False)
    kind: Kind
    name: str = ""
    translate: str = ""
    begin: int = 0
    end: int = 0
    inner: int = 0
    stop: int = 0
    has_text: bool = False
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
        """Namespace prefix of the tag in the file, with its colon; empty if it has none."""
        match = PREFIX.match(self.text, self.begin)
        return (match and match[1]) or ""

    @property
    def content(self) -> str:
        """The text of a node, without comments and with its references resolved."""
        if self.name:
            return "".join(child.content for child in self.children)
        if self.text.startswith(CDATA, self.begin):
            return self.markup[len(CDATA) : -len(CDATA_END)]
        return unescape(self.markup)[0] if self.kind == "text" else ""

    def child(self, *names: str) -> "Node | None":
        """The first child with one of the given names; an earlier name takes precedence."""
        return next((each for name in names for each in self.children if each.name == name), None)

    def attribute(self, name: str) -> str:
        """The value of an attribute, whatever its prefix; empty if it is missing."""
        values = {
            match[1].rpartition(":")[2]: match[2][1:-1]
            for match in ATTRIBUTE.finditer(self.text, self.begin, self.inner)
            if not match[1].startswith("xmlns:")
        }
        return unescape(values.get(name, ""))[0]

    def walk(self, omitted: re.Pattern[str] | None = None) -> "Iterator[Node]":
        """This node and all nodes inside it, in the order of the text, except elements with an
        omitted name and what is inside them.
        """
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if not (omitted and omitted.fullmatch(node.name)):
                yield node
                waiting += node.children[::-1]


class XMLParser:
    """Parses a text, which may have several roots, into a tree.

    Args:
        separator: character put between namespace and name; None = keep names as written.
        max_depth: most levels of nested elements.

    Attributes:
        root: nameless node that contains everything.
        events: nodes in the order of their tags, texts and comments after the prolog, each with
            False. An element is repeated with True for its closing tag.

    Raises: DataError if the text is not well-formed, or has too many or too deeply nested elements.
    """

    def __init__(self, text: str, separator: str | None = None, max_depth: int = MAX_ELEMENTS):
        self.events: list[tuple[Node, bool]] = []
        self._begins: list[int] = []  # of each event, in bytes
        self._text, self._max_depth = text, max_depth
        self._around: list[Node] = []
        self._count = 0  # of elements, comments and instructions
        self._is_raw = False  # inside a CDATA section, which is copied
        self._parser = parser = expat.ParserCreate("utf-8", separator)
        parser.StartElementHandler = self._open
        parser.EndElementHandler = lambda name: self._note(self._around.pop(), True)
        parser.CharacterDataHandler = self._add_text
        parser.CommentHandler = lambda data: self._add("alone")
        parser.ProcessingInstructionHandler = lambda target, data: self._add("alone")
        parser.StartCdataSectionHandler = lambda: self._set_raw(True)
        parser.EndCdataSectionHandler = lambda: self._set_raw(False)
        body = PROLOG.sub("", text, count=1)
        data = feed(parser, f"<{ROOT}>{body}</{ROOT}>")
        self.root = self.events[0][0]
        self.root.name, self.root.stop, self.root.end = "", len(text), len(text)
        self._set_places(data, len(text) - len(body))

    def _note(self, node: Node, is_end: bool) -> None:
        """Add an event, which begins at the position of the parser."""
        self.events.append((node, is_end))
        self._begins.append(self._parser.CurrentByteIndex)

    def _add(self, kind: Kind, name: str = "", translate: str = "") -> Node:
        self._count += kind != "text"
        check_count(self._count)
        node = Node(self._text, kind, name, translate)
        if self._around:
            self._around[-1].children.append(node)
        self._note(node, False)
        return node

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._around) >= self._max_depth:
            raise DataError(f"its elements are nested more than {self._max_depth} levels deep")
        self._around.append(self._add("open", name, attributes.get("translate", "")))

    def _add_text(self, data: str) -> None:
        if not self._is_raw:
            self._around[-1].has_text |= not data.isspace()
            if self.events[-1][0].kind != "text":
                self._add("text")

    def _set_raw(self, is_raw: bool) -> None:
        self._is_raw = is_raw
        if is_raw:
            self._add("alone")

    def _set_places(self, data: bytes, start: int) -> None:
        """Convert places from bytes to characters, and set those of the nodes.

        Args:
            start: number of characters before the data, which begins with the tag of the root.
        """
        self.events = self.events[1:-1]
        byte, place = self._begins[1], start
        for (node, is_end), next_byte in zip(self.events, self._begins[2:], strict=True):
            end = place + len(data[byte:next_byte].decode())
            if is_end:
                node.stop, node.end = place, end
            else:
                node.begin, node.inner, node.stop, node.end = place, end, end, end
            byte, place = next_byte, end


@dataclass(frozen=True)
class XMLReader:
    """Splits XML into tokens: `XMLReader()(text)`.

    An element with text beside it is part of a sentence; other elements end sentences.

    Attributes:
        copied: names of elements that are not translated, as if they had translate="no".
        splitting: names of elements that always end sentences.
        inline: names of elements that never end sentences.
        outline: whether elements without text beside them end sentences.
    """

    copied: Set[str] = frozenset()
    splitting: Set[str] = frozenset()
    inline: Set[str] = frozenset()
    outline: bool = True

    def __call__(self, text: str) -> list[Token]:
        """The tokens of a text. Raises: the errors of `XMLParser`."""
        parsed = XMLParser(text)
        first = parsed.root.children[0].begin if parsed.root.children else len(text)
        tokens = [Token("block", 0, first)]
        around = [parsed.root]
        copied: Node | None = None
        for node, is_end in parsed.events:
            if copied:
                copied = None if node is copied else copied
                continue
            if node.kind != "open":
                tokens.append(Token(node.kind, node.begin, node.end))
                continue
            if is_end:
                around.pop()
            is_inline = node.name in self.inline or around[-1].has_text or not self.outline
            is_block = node.name in self.splitting or not is_inline
            if is_end:
                token = Token("close", node.stop, node.end, node.name)
            elif node.name in self.copied or node.translate == "no":
                copied = node
                texts = [each.markup for each in node.walk() if each.kind == "text"]
                token = copy_token(node.begin, node.end, node.name, texts)
            else:
                around.append(node)
                token = Token("open", node.begin, node.inner, node.name)
            tokens.append(token._replace(kind="block", text="") if is_block else token)
        return tokens


def check_well_formed(text: str) -> None:
    """Check a whole file, which must have exactly one root.

    Raises: DataError if the file is not well-formed, uses an undeclared prefix, or has a document
        type with declarations.
    """

    def refuse_declarations(*type: object) -> None:
        raise DataError("it has a document type with declarations, which are not supported")

    parser = expat.ParserCreate("utf-8", " ")
    parser.StartDoctypeDeclHandler = refuse_declarations
    feed(parser, PROLOG.sub("", text, count=1))


def feed(parser: expat.XMLParserType, text: str) -> bytes:
    """Parse a text. Returns: its bytes. Raises: DataError if the text is not well-formed."""
    try:
        data = text.encode()
        parser.Parse(data, True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise DataError(f"it is not well-formed XML: {error}") from None
    return data


def parse_xml(text: str, vocabulary: re.Pattern[str], prefix: str = "") -> Node:
    """Parse a file into a tree.

    Args:
        vocabulary: namespaces of the elements that the caller looks for.
        prefix: prefix that these elements get in the tree.

    Raises: DataError if the file is not well-formed, declares entities, is nested too deeply, or
        has too many elements, after which parsing stops.
    """
    check_well_formed(text)
    root = XMLParser(text, " ", MAX_DEPTH).root
    for node in root.walk():
        space, _, local = node.name.rpartition(" ")
        if local and vocabulary.fullmatch(space):
            node.name = prefix + local
    return root


def escape_xml(text: str) -> str:
    """Escape a text to stand between XML tags, without the characters that XML forbids."""
    return escape_text(FORBIDDEN.sub("", text))


def change_attributes(opening: str, **values: str) -> str:
    """Make an opening tag from an opening or single tag, with new values for some attributes.
    Attributes with an empty value are removed.
    """
    kept = ATTRIBUTE.sub(lambda match: "" if match[1] in values else match[0], opening)
    added = "".join(f' {name}="{value}"' for name, value in values.items() if value)
    return kept.removesuffix(">").removesuffix("/").rstrip() + added + ">"

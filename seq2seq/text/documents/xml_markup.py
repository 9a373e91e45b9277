"""Parses XML into tokens or a tree whose nodes know their places in the text."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from itertools import pairwise
from xml.parsers import expat

from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import escape_text
from seq2seq.text.documents.html_markup import copy_token
from seq2seq.text.documents.markup import Kind, Token, check_count, unescape

MAX_DEPTH = 200  # of nested elements in a file
# Before the root: a declaration, and a document type without declarations of its own. A document
# type that declares entities, which can include files or expand without limit, is refused.
PROLOG = re.compile(r"\ufeff?\s*(?:<\?xml\b[^>]*+>\s*)?(?:<!DOCTYPE\b[^\[>]*+>)?")
ROOT = "x"  # name of an element put around the text, which may have no root, or several
# Characters that XML cannot contain, not even as references.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CDATA, CDATA_END = "<![CDATA[", "]]>"
PREFIX = re.compile(r"<([^\s/>:]+:)?")
ATTRIBUTE = re.compile(r"""\s([^\s=<>"']++)\s*+=\s*+("[^"]*"|'[^']*')""")


@dataclass(eq=False, slots=True)
class Node:
    """An XML element with its content, or a text or comment node, which has an empty name.

    Attributes:
        text: whole text of the file.
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
        return "" if self.text.startswith("<", self.begin) else unescape(self.markup)[0]

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

    def walk(self) -> "Iterator[Node]":
        """This node and all nodes inside it, in the order of the text."""
        waiting = [self]
        while waiting:
            yield (node := waiting.pop())
            waiting += node.children[::-1]


class XMLParser:
    """Parses a text, which may have several roots.

    Args:
        separator: character put between namespace and name; None = keep names as written.

    Attributes:
        root: nameless node that contains everything.
        tokens: tags, texts and comments after the prolog, in order.
        nodes: node of each token.

    Raises: DataError if the text is not well-formed, or has more than `MAX_ELEMENTS` elements.
    """

    def __init__(self, text: str, separator: str | None = None):
        self.tokens: list[Token] = []
        self.nodes: list[Node] = []
        self._text = text
        self._around: list[Node] = []
        self._count = 0  # of elements, comments and instructions
        self._is_raw = False  # inside a CDATA section, which is copied
        self._parser = parser = expat.ParserCreate("utf-8", separator)
        parser.StartElementHandler = self._open
        parser.EndElementHandler = lambda name: self._note("close", self._around.pop())
        parser.CharacterDataHandler = self._add_text
        parser.CommentHandler = lambda data: self._add("alone")
        parser.ProcessingInstructionHandler = lambda target, data: self._add("alone")
        parser.StartCdataSectionHandler = lambda: self._set_raw(True)
        parser.EndCdataSectionHandler = lambda: self._set_raw(False)
        body = PROLOG.sub("", text, count=1)
        data = feed(parser, f"<{ROOT}>{body}</{ROOT}>")
        self._set_places(data, len(text) - len(body))

    def _note(self, kind: Kind, node: Node) -> None:
        """Add a token that begins at the position of the parser, counted in bytes of UTF-8."""
        self.tokens.append(Token(kind, self._parser.CurrentByteIndex, 0, node.name))
        self.nodes.append(node)

    def _add(self, kind: Kind, name: str = "", translate: str = "") -> Node:
        self._count += kind != "text"
        check_count(self._count)
        node = Node(self._text, name, translate)
        if self._around:
            self._around[-1].children.append(node)
        self._note(kind, node)
        return node

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._around.append(self._add("open", name, attributes.get("translate", "")))

    def _add_text(self, data: str) -> None:
        if not self._is_raw:
            self._around[-1].has_text |= not data.isspace()
            if self.tokens[-1].kind != "text":
                self._add("text")

    def _set_raw(self, is_raw: bool) -> None:
        self._is_raw = is_raw
        if is_raw:
            self._add("alone")

    def _set_places(self, data: bytes, start: int) -> None:
        """Convert the places of tokens from bytes to characters, and copy them to the nodes."""
        self.root, *self.nodes, _ = self.nodes
        self.root.name, self.root.end, self.root.stop = "", len(self._text), len(self._text)
        begins, place, characters = [], len(f"<{ROOT}>"), start
        for token in self.tokens[1:]:
            characters += len(data[place : token.begin].decode())
            begins.append(characters)
            place = token.begin
        places = zip(self.tokens[1:-1], self.nodes, pairwise(begins), strict=True)
        self.tokens = []
        for token, node, (begin, end) in places:
            self.tokens.append(token._replace(begin=begin, end=end))
            if token.kind == "close":
                node.stop, node.end = begin, end
            else:
                node.begin, node.inner, node.stop, node.end = begin, end, end, end


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
        tokens = [Token("block", 0, parsed.tokens[0].begin if parsed.tokens else len(text))]
        around = [parsed.root]
        depth = 0  # of open elements, from the one that is not translated on
        copied: list[str] = []  # texts of that element
        for token, node in zip(parsed.tokens, parsed.nodes, strict=True):
            kind, begin, end = token[:3]
            if depth:
                depth += (kind == "open") - (kind == "close")
                tokens[-1] = tokens[-1]._replace(end=end)
                copied += [text[begin:end]] if kind == "text" else []
                if not depth and tokens[-1].kind == "open":
                    tokens.append(copy_token(tokens.pop().begin, end, node.name, copied))
            elif kind in ("open", "close"):
                around += [node] if kind == "open" else []
                is_beside_text = around[-2].has_text or not self.outline
                is_inline = node.name in self.inline or is_beside_text
                is_block = node.name in self.splitting or not is_inline
                tokens.append(token._replace(kind="block") if is_block else token)
                is_copied = node.name in self.copied or node.translate == "no"
                depth, copied = int(kind == "open" and is_copied), []
            else:
                tokens.append(token)
            if kind == "close" and not depth:
                around.pop()
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
    parsed = XMLParser(text, " ")
    depth = 0
    for token, node in zip(parsed.tokens, parsed.nodes, strict=True):
        depth += (token.kind == "open") - (token.kind == "close")
        if depth >= MAX_DEPTH:
            raise DataError(f"its elements are nested more than {MAX_DEPTH} levels deep")
        space, _, local = token.name.rpartition(" ")
        if token.kind == "open" and vocabulary.fullmatch(space):
            node.name = prefix + local
    return parsed.root


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

"""A text of a file in which characters and elements are mixed, as in HTML and OpenDocument."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from seq2seq.text.documents.files.contents import Cutter, NumberedText
from seq2seq.text.documents.files.dialects import Dialect
from seq2seq.text.documents.markup import Kind, Token
from seq2seq.text.documents.xml_markup import Node, escape_xml

# Marks of the ends of a span, for example of bookmarks; both have the same id or name.
PAIRS = re.compile(r"(w:[\w-]+?)-?(start|Start|end|End)")
KEYS = ("id", "name", "change-id")
ENDS: dict[str, Kind] = {"start": "open", "end": "close"}
Render = Callable[[int, int], str]  # writes a span of the file, including nested passages


class MixedText:
    """A passage with elements inside.

    Args:
        tokens: text and tags of the span, in order. A text has its characters in `text`.
    """

    def __init__(self, begin: int, end: int, tokens: Iterable[Token], cut: Cutter):
        self.begin, self.end = begin, end
        self._text = NumberedText(escape_xml)
        for token in tokens:
            if token.kind == "text":
                self._text.add_text(token.text)
            else:
                self._text.add_tag(token)
        self.document = self._text.cut(cut)

    def write(self, translated: str, render: Render) -> str:
        if translated == str(self._text):
            return render(self.begin, self.end)
        return "".join(
            escape_xml(part.markup or part.text)
            if part.markup or part.kind == "text"
            else render(part.begin, part.end)
            for part in self._text.parts(translated)
        )


def find_marks(nodes: Sequence[Node]) -> dict[Node, tuple[Kind, str]]:
    """The kind and name of the tag for each mark of a span among sibling nodes, such as the start
    of a bookmark. A mark whose partner is elsewhere is a single tag, so pairs never overlap
    elements.
    """
    found: dict[Node, tuple[Kind, str]] = {}
    for node in nodes:
        if match := PAIRS.fullmatch(node.name):
            key = next(filter(None, map(node.attribute, KEYS)), "")
            found[node] = ENDS[match[2].lower()], f"{match[1]} {key}"
    count = Counter(key for _, key in found.values())
    return {
        node: (kind if count[key] == 2 else "alone", key) for node, (kind, key) in found.items()
    }


def read_mixed(nodes: Sequence[Node], kind: Dialect) -> Iterator[Token]:
    """The tokens of an element with mixed content."""
    marks = find_marks(nodes)
    for node in nodes:
        begin, end, name = node.begin, node.end, node.name
        if not name and node.content:
            yield from split_cells(node.content, kind.cells)
        elif kind.around.fullmatch(name):
            yield Token("open", begin, node.inner, name)
            yield from read_mixed(node.children, kind)
            yield Token("close", node.stop, end, name)
        elif kind.ending.fullmatch(name):
            yield Token("block", begin, end, name)
        elif kind.blanks.fullmatch(name):
            yield Token("alone", begin, end, name, " ")
        else:
            tag, key = marks.get(node, ("alone", ""))
            yield Token(tag, begin, end, key)


def split_cells(text: str, cells: re.Pattern[str], name: str = "") -> Iterator[Token]:
    """The parts of a text, as tokens. What stands between two cells is a block."""
    for number, part in enumerate(cells.split(text)):
        if number % 2:
            yield Token("block", name=f"run {name}", text="\t", markup=part)
        elif part:
            yield Token("text", name=name, text=part)

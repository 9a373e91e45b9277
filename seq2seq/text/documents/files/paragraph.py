"""A paragraph of an Open XML file, read as a text with tags. In the file it consists of runs of
characters, each run with its own formatting. The names of elements are those of Word: the others
are alike, as `w:p`, `w:r` and `w:t` are in a presentation.

The most common formatting in a sentence is its base. The translation has the base formatting,
except for words inside an element with different formatting.
"""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import mode

from seq2seq.text.documents.document import sentences_of
from seq2seq.text.documents.files.contents import Cutter, NumberedText
from seq2seq.text.documents.files.dialects import Dialect
from seq2seq.text.documents.files.mixed import Render, find_marks, split_cells
from seq2seq.text.documents.html_markup import ATTRIBUTE
from seq2seq.text.documents.markup import Kind, Token
from seq2seq.text.documents.placeholders import is_language
from seq2seq.text.documents.xml_markup import Node, escape_xml

# Elements around runs, and those around alternative contents, whose sentences are separate.
AROUND = re.compile(
    "w:(?:hyperlink|ins|moveTo|smartTag|customXml|dir|bdo|sdt)|"
    r"\S+/markup-compatibility/2006 (?:AlternateContent|Choice|Fallback)"
)
BREAKS = {"w:br", "w:cr"}
# Elements that end a sentence: tabs, and parts of a field that continues in another paragraph.
ENDING = {"w:tab", "w:ptab", "w:fldChar"}
# Text in these belongs to another paragraph, was moved away, is computed, or is a pronunciation.
SKIPPED = {"w:p", "w:moveFrom", "w:fldSimple", "w:fld", "w:rt", "w:rPh"}
RAISED = {"superscript", "subscript"}
LINK = re.compile(r"instrText\b[^<>]*>\s*HYPERLINK\b")  # instruction of a field that has text
# Not formatting: text nodes such as white space, marks for spell checkers, ...
UNFORMATTED = {"", "w:lang", "w:noProof", "lang", "altLang", "noProof", "dirty", "err", "smtClean"}
# ... and the numbers of editing sessions.
SESSIONS = re.compile(r"""\s[^\s="']*\brsid\w*+\s*+=\s*+(?:"[^"]*"|'[^']*')""")


class Paragraph:
    """A paragraph of an Open XML file.

    Args:
        lost: list to which texts that cannot be translated are added.
    """

    def __init__(self, node: Node, kind: Dialect, cut: Cutter, lost: list[str]):
        self._node, self._kind = node, kind
        self.begin, self.end = node.begin, node.end
        self._lost = lost
        self._formats: dict[str, int] = {}
        self._runs: list[Node] = []  # first run of each format
        self._items: list[Token] = []  # the `name` of a text is the number of its format
        self._read(node.children)
        self._text = self._number(cut.language)
        self.document = self._text.cut(cut)
        del self._items, self._formats  # saves memory: a file can have very many paragraphs

    def _read(self, nodes: Sequence[Node]) -> None:
        """Add the content of an element that contains runs."""
        fields, marks = find_fields(nodes), find_marks(nodes)
        k = 0
        while k < len(nodes):
            node, end = nodes[k], fields.get(k, k)
            if end > k:
                self._read_field(nodes[k : end + 1])
            elif inside := inside_of(node):
                is_apart = not node.name.startswith("w:")
                self._add_tag("block" if is_apart else "open", node.begin, inside.inner, node.name)
                self._read(inside.children)
                self._add_tag("block" if is_apart else "close", inside.stop, node.end, node.name)
            elif node.name == "w:r" and node.children:
                self._read_run(node)
            elif node.name and node.name != "w:pPr":
                text = " " if node.name in BREAKS else ""
                tag, key = marks.get(node, ("alone", ""))
                self._add_tag(tag, node.begin, node.end, key, text)
                self._lose(node)
            k = end + 1

    def _read_field(self, nodes: Sequence[Node]) -> None:
        """Add a field: a pair of tags around the text if it is a link, else a single tag."""
        begin, end = nodes[0].begin, nodes[-1].end
        runs = [node for node in nodes if field_ends(node)]
        kinds = [field_ends(run) for run in runs]
        is_link = LINK.search(self._node.text, begin, runs[1].begin)
        if is_link and [*kinds[:2], kinds[-1]] == [["begin"], ["separate"], ["end"]]:
            self._add_tag("open", begin, runs[1].end, "field")
            self._read(nodes[nodes.index(runs[1]) + 1 : -1])
            self._add_tag("close", nodes[-1].begin, end, "field")
            self._lose(nodes[0], runs[1], nodes[-1])
        else:
            self._add_tag("alone", begin, end)
            self._lose(*(nodes if is_link else (nodes[0], nodes[-1])))

    def _read_run(self, node: Node) -> None:
        properties = node.child("w:rPr")
        formatting = properties.children if properties else []
        marks = [each.markup for each in formatting if each.name not in UNFORMATTED]
        attributes = ATTRIBUTE.findall(properties.opening if properties else "")
        kept = [f"{name}={value}" for name, value in attributes if name not in UNFORMATTED]
        key = "".join([SESSIONS.sub("", node.opening), *kept, *marks])
        format = self._formats.setdefault(key, len(self._formats))
        self._runs += [node] if format == len(self._runs) else []
        raised = properties and properties.child("w:vertAlign")
        is_raised = bool(raised and raised.attribute("val") in RAISED)
        is_raised |= bool(properties and properties.attribute("baseline") not in ("", "0"))
        if is_raised:
            self._add_tag("open", node.begin, node.begin, "sup")
        fields, place = find_fields(node.children), node.begin
        for k, child in enumerate(node.children):
            if not child.name or child is properties or child.begin < place:
                continue
            place = node.children[fields.get(k, k)].end
            if child.name == "w:t":
                self._items += split_cells(child.content, self._kind.cells, str(format))
            elif child.name == "w:noBreakHyphen":
                self._items.append(Token("text", name=str(format), text="-"))
            elif child.name in ENDING and k not in fields:
                self._add_tag("block", child.begin, place, f"run {format}", "\t")
            else:
                text = " " if child.name in BREAKS else ""
                self._add_tag("alone", child.begin, place, f"run {format}", text)
                is_field = k in fields and not LINK.search(node.text, child.begin, place)
                self._lose(*([] if is_field else node.children[k : fields.get(k, k) + 1]))
        if is_raised:
            self._add_tag("close", node.end, node.end, "sup")

    def _lose(self, *nodes: Node) -> None:
        """Record the text inside copied markup, which cannot be translated."""
        text = "".join(map(text_of, nodes))
        self._lost += [text] if is_language(text) else []

    def _add_tag(self, kind: Kind, begin: int, end: int, name: str = "", text: str = "") -> None:
        self._items.append(Token(kind, begin, end, name, text))

    def _number(self, language: str | None) -> NumberedText:
        """The text of the paragraph, with tags around characters whose formatting differs from the
        base of their sentence, and around sentences whose base differs from that of the paragraph.
        """
        plain = "".join(item.text for item in self._items)
        formats: list[int] = []  # of each character; 0 for the text of a tag
        for item in self._items:
            formats += [int(item.name) if item.kind == "text" else 0] * len(item.text)
        most = mode(formats or [0])
        bases = [most] * len(plain)
        for begin, end in sentences_of(plain, language, "lines"):
            bases[begin:end] = [mode(formats[begin:end])] * (end - begin)
        text, place = NumberedText(), 0
        around: list[int] = []  # formats whose tags are open
        for item in self._items:
            begin, place = place, place + len(item.text)
            if item.kind != "text":
                if item.kind != "alone":
                    set_formats(text, around, [])
                text.add_tag(item)
                continue
            for base, span in groupby(range(begin, place), bases.__getitem__):
                path = pairwise([most, base, int(item.name)])
                set_formats(text, around, [inner for outer, inner in path if inner != outer])
                text.add_text("".join(plain[k] for k in span))
        set_formats(text, around, [])
        self._most = most
        return text

    def write(self, translated: str, render: Render) -> str:
        node = self._node
        if translated == str(self._text):
            return node.opening + render(node.inner, node.stop) + node.closing
        properties = node.child("w:pPr")
        written = [node.opening, properties.markup if properties else ""]
        formats = [self._most]
        for part in self._text.parts(translated):
            if part.kind == "text":
                written.append(self._write_run(formats[-1], self._write_text(part.text)))
                continue
            kind, _, number = part.name.partition(" ")
            if kind == "format":
                formats = [*formats, int(number)] if part.kind == "open" else formats[:-1]
                continue
            cell = part.markup and self._write_text(part.markup)
            markup = cell or render(part.begin, part.end)
            written.append(self._write_run(int(number), markup) if kind == "run" else markup)
        return "".join([*written, node.closing])

    def _write_text(self, text: str) -> str:
        name = f"{self._node.prefix}t"
        return f"<{name}{self._kind.space}>{escape_xml(text)}</{name}>"

    def _write_run(self, format: int, markup: str) -> str:
        """A run with a format, and the attributes of the first run that has this format."""
        run = self._runs[format]
        properties = run.child("w:rPr")
        return f"{run.opening}{properties.markup if properties else ''}{markup}{run.closing}"


def set_formats(text: NumberedText, around: list[int], formats: list[int]) -> None:
    """Open and close tags so that exactly `formats`, from the outermost to the innermost, enclose
    the text that is added next. Updates `around`, the formats whose tags are open.
    """
    while around != formats[: len(around)]:
        text.add_tag(Token("close", name=f"format {around.pop()}"))
    for number in formats[len(around) :]:
        text.add_tag(Token("open", name=f"format {number}"))
        around.append(number)


def text_of(node: Node) -> str:
    """The text inside an element that should appear in a translation of its paragraph."""
    if node.name == "w:t":
        return node.content
    return "" if node.name in SKIPPED else "".join(map(text_of, node.children))


def inside_of(node: Node) -> Node | None:
    """The element, at or below `node`, whose children are runs to translate. None if there is no
    such element, or `node` is a check box. For a run that is only a word with its pronunciation, it
    is the word.
    """
    if node.name == "w:r":
        content = [each for each in node.children if each.name not in ("", "w:rPr")]
        return content[0].child("w:rubyBase") if len(content) == 1 else None
    properties = node.child("w:sdtPr")
    if properties and any(each.name.endswith(" checkbox") for each in properties.children):
        return None
    return node.child("w:sdtContent") or (node if AROUND.fullmatch(node.name) else None)


def field_ends(node: Node) -> list[str]:
    """Field marks in a run, or of an element of a run: `begin`, `separate` or `end`."""
    found = [each for each in (node, *node.children) if each.name == "w:fldChar"]
    return [each.attribute("fldCharType") for each in found]


def find_fields(nodes: Sequence[Node]) -> dict[int, int]:
    """Fields that begin and end among some elements: index of the first element -> last."""
    begins: list[int] = []
    fields = {}
    for k, node in enumerate(nodes):
        for kind in field_ends(node):
            if kind == "begin":
                begins.append(k)
            elif kind == "end" and begins:
                fields[begins.pop()] = k
    return fields

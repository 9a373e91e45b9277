"""XLIFF 1.2 and 2.0: the text of each source is translated into its target."""

import re
from collections.abc import Sequence
from functools import partial

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.files.numbered import Kind, NumberedText, Tag
from seq2seq.documents.files.xml_tree import Node, escape_xml, parse_xml
from seq2seq.documents.html_markup import MAX_COPIED

UNITS = {"trans-unit", "segment"}
AROUND = {"g", "mrk", "pc"}  # elements around text; the text of all others is code
# Codes that open and close what is around text in pieces, and attributes that pair them.
OPENING, CLOSING = {"bpt", "bx", "sc"}, {"ept", "ex", "ec"}
PARTNER = re.compile(r'\s(?:rid|startRef)\s*=\s*["\']([^"\']*)')
ID = re.compile(r'\sid\s*=\s*["\']([^"\']*)')


def open_xliff(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if it is no text or not well-formed."""
    text = decode_file(data)
    units = find_units(parse_xml(text))
    texts = [read_inline(source) for source, _, _ in units]
    return Contents([each.cut(cut) for each in texts], partial(write_xliff, text, units, texts))


def find_units(root: Node) -> list[tuple[Node, Node | None, int]]:
    """Of each unit to translate the source, the target if there is one, and the place for one."""
    units = []
    waiting = [(root, True)]
    while waiting:
        node, is_translated = waiting.pop()
        is_translated = node.translate != "no" if node.translate else is_translated
        name = node.name.rpartition(":")[2]
        prefix = node.name.removesuffix(name)
        source = node.child(f"{prefix}seg-source", f"{prefix}source")
        if name in UNITS and is_translated and source:
            after = max(each.end for each in node.children if each.name.endswith("source"))
            units.append((source, node.child(f"{prefix}target"), after))
        elif name not in UNITS:
            waiting += [(child, is_translated) for child in node.children[::-1]]
    return units


def read_inline(source: Node) -> NumberedText:
    """The text of a source, with tags for what is in it."""
    text = NumberedText()
    add_nodes(text, source.children)
    return text


def add_nodes(text: NumberedText, nodes: Sequence[Node]) -> None:
    for node in nodes:
        name = node.name.rpartition(":")[2]
        is_kept = node.translate == "no" or 'mtype="protected"' in node.opening
        if not name and node.content:
            text.add_text(node.content)
        elif name in AROUND and not is_kept:
            text.add_tag(Tag("open", node.opening, node.name))
            add_nodes(text, node.children)
            text.add_tag(Tag("close", node.closing, node.name))
        elif name in AROUND and 0 < len(node.content) <= MAX_COPIED:
            text.add_tag(Tag("copy", node.markup), " ".join(node.content.split()))
        else:
            kind: Kind = "open" if name in OPENING else "close" if name in CLOSING else "alone"
            code = node.markup.partition(">")[0]
            key = PARTNER.search(code) or ID.search(code)
            text.add_tag(Tag(kind, node.markup, f"code {key[1] if key else ''}"))


def write_xliff(
    text: str,
    units: Sequence[tuple[Node, Node | None, int]],
    texts: Sequence[NumberedText],
    translated: Sequence[str],
) -> bytes:
    """The file with targets."""
    changes = []
    for (source, target, after), numbered, new in zip(units, texts, translated, strict=True):
        inner = text[source.inner : source.stop]
        if new != str(numbered):
            parts = numbered.parts(new)
            inner = "".join(
                escape_xml(part) if isinstance(part, str) else part.markup for part in parts
            )
        if target is None:
            space = text[text.rfind(">", 0, source.begin) + 1 : source.begin]
            tag = source.name.replace("seg-source", "target").replace("source", "target")
            changes.append((after, after, f"{space}<{tag}>{inner}</{tag}>"))
        elif target.is_single:
            opening = target.markup.removesuffix("/>").rstrip()
            changes.append((target.begin, target.end, f"{opening}>{inner}</{target.name}>"))
        else:
            changes.append((target.inner, target.stop, inner))
    return splice(text, changes).encode()

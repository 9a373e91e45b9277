"""XLIFF 1.2 and 2.0: the text of each source is translated into its target."""

import re
from collections.abc import Sequence
from functools import partial

from seq2seq.documents.files.contents import Change, Contents, Cutter, decode_file
from seq2seq.documents.files.messages import (
    HAS_TAGS,
    Message,
    add_message,
    differences,
    open_messages,
)
from seq2seq.documents.files.numbered import Kind, NumberedText, Tag
from seq2seq.documents.files.xml_tree import Node, change_attributes, escape_xml, parse_xml
from seq2seq.documents.html_markup import MAX_COPIED
from seq2seq.errors import DataError

XLIFF = re.compile(r"(?:urn:oasis:names:tc:xliff:document:\S*)?")  # also without a namespace
UNITS = {"trans-unit", "segment"}  # of versions 1 and 2
AROUND = {"g", "mrk", "pc"}  # elements around text; the text of all others is code
# Codes that open and close what is around text in pieces, and what begins the names of Angular's.
SIDES: dict[str, Kind] = {
    **dict.fromkeys(["bpt", "bx", "sc", "sm", "START"], "open"),
    **dict.fromkeys(["ept", "ex", "ec", "em", "CLOSE"], "close"),
}
# States of targets that people have finished, and of those that wait for a translation.
FINISHED = {"translated", "reviewed", "signed-off", "final"}
WAITING = {"new", "needs-translation", "initial"}


def open_xliff(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if the data is not XLIFF, or not well-formed."""
    text = decode_file(data)
    root = parse_xml(text, XLIFF)
    if not root.child("xliff"):
        raise DataError("it is no XLIFF file: its first element is not <xliff>")
    return open_messages(text, find_units(root), cut, escape_xml)


def find_units(root: Node) -> list[Message]:
    """The units to translate."""
    messages = []
    waiting = [(root, True)]
    while waiting:
        node, is_translated = waiting.pop()
        is_translated = node.translate != "no" if node.translate else is_translated
        source, target = node.child("seg-source", "source"), node.child("target")
        if node.name not in UNITS:
            waiting += [(child, is_translated) for child in node.children[::-1]]
        elif is_translated and source and source.children and not is_done(node, source, target):
            messages.append(read_unit(node, source, target))
    return messages


def is_done(node: Node, source: Node, target: Node | None) -> bool:
    """Whether the target of a unit is the work of a person, or of another program, that must stay.

    That is so if its state says so, and if there is a translation whose state does not say that it
    waits for one.
    """
    if target is None:
        return False
    states = {
        re.split(r"x-|:", each.attribute(name))[-1]
        for each in (node, target)
        for name in ("state", "subState")
    }
    if states & FINISHED or node.attribute("approved") == "yes":
        return True
    content = target.content.strip()
    return content not in ("", source.content.strip()) and not states & WAITING


def read_unit(node: Node, source: Node, target: Node | None) -> Message:
    """A unit as a message, with tags for what is in its source."""
    text, content = NumberedText(), source.content
    add_nodes(text, source.children, HAS_TAGS.search(content) is not None)
    written = source.text[source.inner : source.stop]
    fill = partial(fill_unit, node, source, target)
    return Message(node.begin, content, text, written, partial(compare_braces, written), fill)


def add_nodes(text: NumberedText, nodes: Sequence[Node], has_tags: bool) -> None:
    """Add what is in a source; `has_tags` says whether its text is HTML."""
    for node in nodes:
        is_kept = node.translate == "no" or node.attribute("mtype") == "protected"
        if not node.name and node.content:
            add_message(text, node.content, has_tags, escape_xml)
        elif node.name in AROUND and not is_kept:
            text.add_tag(Tag("open", node.opening, node.name))
            add_nodes(text, node.children, has_tags)
            text.add_tag(Tag("close", node.closing, node.name))
        elif node.name in AROUND and 0 < len(node.content) <= MAX_COPIED:
            text.add_tag(Tag("copy", node.markup), " ".join(node.content.split()))
        else:
            kind, key = read_code(node)
            text.add_tag(Tag(kind, node.markup, f"code {key}"))


def read_code(node: Node) -> tuple[Kind, str]:
    """What a code is, and the key by which it finds its partner."""
    key = node.attribute("rid") or node.attribute("startRef") or node.attribute("id")
    side, _, name = key.partition("_")
    if node.name == "x" and side in SIDES:
        return SIDES[side], name
    return SIDES.get(node.name, "alone"), key


def compare_braces(source: str, translation: str) -> list[str]:
    """The placeholders in braces that a source and its target do not share."""
    changed = differences(source, translation, "{}")
    return [each for each in changed if "{" in each or "}" in each]


def fill_unit(node: Node, source: Node, target: Node | None, inner: str) -> list[Change]:
    """The changes of a file that give a unit a target, which a person should review."""
    changes = []
    states = {"state": "needs-review-translation", "state-qualifier": ""}
    if node.name == "segment":
        opening = change_attributes(node.opening, state="translated", subState="")
        changes.append((node.begin, node.inner, opening))
        states = {}
    name = f"{(target or source).prefix}target"
    opening = change_attributes(target.opening if target else f"<{name}>", **states)
    filled = f"{opening}{inner}</{name}>"
    if target:
        return [*changes, (target.begin, target.end, filled)]
    space = source.text[source.text.rfind(">", 0, source.begin) + 1 : source.begin]
    place = max(each.end for each in node.children if each.name.endswith("source"))
    return [*changes, (place, place, space + filled)]

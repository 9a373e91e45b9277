"""XLIFF 1.2 and 2.0: the text of each source is translated into its target."""

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.files.messages import HAS_TAGS, add_message, differences, render_message
from seq2seq.documents.files.numbered import Kind, NumberedText, Tag
from seq2seq.documents.files.xml_tree import Node, change_attributes, escape_xml, parse_xml
from seq2seq.documents.html_markup import MAX_COPIED
from seq2seq.errors import DataError

XLIFF = re.compile(r"(?:urn:oasis:names:tc:xliff:document:\S*)?")  # also without a namespace
UNITS = {"trans-unit", "segment"}  # of versions 1 and 2
AROUND = {"g", "mrk", "pc"}  # elements around text; the text of all others is code
# Codes that open and close what is around text in pieces.
OPENING, CLOSING = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}
# States of targets that people have finished, and of those that wait for a translation.
FINISHED = {"translated", "reviewed", "signed-off", "final"}
WAITING = {"new", "needs-translation", "initial"}


class Unit(NamedTuple):
    """A text of the file.

    Attributes:
        node: the element with its source and target.
        target: None if there is none.
        place: where a target can be put.
        text: of the source.
    """

    node: Node
    source: Node
    target: Node | None
    place: int
    text: NumberedText

    @property
    def is_done(self) -> bool:
        """Whether its target is the work of a person, or of another program, that must stay.

        That is so if its state says so, and if there is a translation whose state does not say that
        it waits for one.
        """
        if self.target is None:
            return False
        states = {
            re.split(r"x-|:", node.attribute(name))[-1]
            for node in (self.node, self.target)
            for name in ("state", "subState")
        }
        if states & FINISHED or self.node.attribute("approved") == "yes":
            return True
        content = self.target.content.strip()
        return content not in ("", self.source.content.strip()) and not states & WAITING


def open_xliff(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if the data is not XLIFF, or not well-formed."""
    text = decode_file(data)
    root = parse_xml(text, XLIFF)
    if not root.child("xliff"):
        raise DataError("it is no XLIFF file: its first element is not <xliff>")
    units = find_units(root)
    problems: list[str] = []
    write = partial(write_xliff, text, units, problems)
    return Contents([unit.text.cut(cut) for unit in units], write, problems)


def find_units(root: Node) -> list[Unit]:
    """The units to translate."""
    units = []
    waiting = [(root, True)]
    while waiting:
        node, is_translated = waiting.pop()
        is_translated = node.translate != "no" if node.translate else is_translated
        source = node.child("seg-source", "source")
        if node.name not in UNITS:
            waiting += [(child, is_translated) for child in node.children[::-1]]
        elif is_translated and source and source.children:
            place = max(each.end for each in node.children if each.name.endswith("source"))
            unit = Unit(node, source, node.child("target"), place, read_source(source))
            units += [] if unit.is_done else [unit]
    return units


def read_source(source: Node) -> NumberedText:
    """The text of a source, with tags for what is in it."""
    text = NumberedText()
    add_nodes(text, source.children, HAS_TAGS.search(source.content) is not None)
    return text


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
    side = key.partition("_")[0] if node.name == "x" else ""
    if side in ("START", "CLOSE"):  # as Angular writes tags
        return "open" if side == "START" else "close", key.removeprefix(f"{side}_")
    return "open" if node.name in OPENING else "close" if node.name in CLOSING else "alone", key


def write_xliff(
    text: str, units: Sequence[Unit], problems: list[str], translated: Sequence[str]
) -> bytes:
    """The file with targets. Units whose placeholders in braces would not be those of their source
    stay as they are, and `problems` names them.
    """
    changes: list[tuple[int, int, str]] = []
    problems.clear()
    for unit, new in zip(units, translated, strict=True):
        inner = text[unit.source.inner : unit.source.stop]
        if new != str(unit.text):
            inner = render_message(unit.text, unit.source.content, new, escape_xml)
        changed = differences(text[unit.source.inner : unit.source.stop], inner)
        if lost := [each for each in changed if "{" in each or "}" in each]:
            problems.append(
                f"{unit.source.content[:60]!r} stays without a translation: a person should "
                f"see to {', '.join(lost)}"
            )
        else:
            changes += fill_unit(unit, inner)
    return splice(text, changes).encode()


def fill_unit(unit: Unit, inner: str) -> list[tuple[int, int, str]]:
    """The changes of a file that give a unit a target, which a person should review."""
    node, source, target = unit.node, unit.source, unit.target
    states = {"state": "needs-review-translation", "state-qualifier": ""}
    changes = []
    if node.name == "segment":
        new = change_attributes(node.opening, state="translated", subState="")
        changes.append((node.begin, node.inner, new))
        states = {}
    if target is None:
        space = source.text[source.text.rfind(">", 0, source.begin) + 1 : source.begin]
        name = f"{source.prefix}target"
        opening = change_attributes(f"<{name}>", **states)
        return [*changes, (unit.place, unit.place, f"{space}{opening}{inner}</{name}>")]
    opening = change_attributes(target.opening, **states)
    if target.is_single:
        opening = opening.removesuffix("/>").rstrip() + ">"
        inner = f"{inner}</{target.prefix}target>"
    return [*changes, (target.begin, target.inner, opening), (target.inner, target.stop, inner)]

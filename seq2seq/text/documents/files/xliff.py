"""XLIFF 1.2 and 2.0: the translation of each source becomes its target."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Change, Contents, Cutter, NumberedText, splice
from seq2seq.text.documents.files.messages import HAS_TAGS, Message, add_message, open_messages
from seq2seq.text.documents.html_markup import MAX_COPIED
from seq2seq.text.documents.markup import Kind, Token
from seq2seq.text.documents.placeholders import is_language
from seq2seq.text.documents.xml_markup import Node, change_attributes, escape_xml, parse_xml

# The namespace of XLIFF, which some files lack.
XLIFF = re.compile(r"(?:urn:oasis:names:tc:xliff:document:\S*)?")
UNITS = {"trans-unit", "segment"}  # of versions 1 and 2
AROUND = {"g", "mrk", "pc"}  # elements around text; text inside all others is code
# Codes that open and close an element around text, and prefixes of the codes that Angular writes.
OPENING, CLOSING = {"bpt", "bx", "sc", "sm", "START"}, {"ept", "ex", "ec", "em", "CLOSE"}
# States of targets that a person has finished, and of targets that wait for a translation.
STATE = r"""\s(?:state|subState)\s*=\s*["'](?:[^\s"']*:|x-)?"""
FINISHED = re.compile(
    rf"""{STATE}(?:translated|reviewed|signed-off|final)["']|\sapproved\s*=\s*["']yes["']"""
)
WAITING = re.compile(rf"""{STATE}(?:new|needs-translation|initial)["']""")


def open_xliff(text: str, cut: Cutter) -> Contents:
    """The contents of an XLIFF file. Raises: DataError if the text is not well-formed XLIFF."""
    root = parse_xml(text, XLIFF)
    if not root.child("xliff"):
        raise DataError("it is not an XLIFF file: its first element is not <xliff>")
    return open_messages(text, list(find_units(root)), cut)


def find_units(node: Node, is_translated: bool = True, space: str = "") -> Iterator[Message]:
    """The units inside an element that are to be translated.

    Args:
        is_translated, space: settings inherited from the parent, unless the element has its own.
    """
    is_translated = node.translate != "no" if node.translate else is_translated
    space = node.attribute("space") or space
    source, target = node.child("seg-source", "source"), node.child("target")
    if node.name not in UNITS:
        for child in node.children:
            yield from find_units(child, is_translated, space)
    elif is_translated and source and source.children and not is_done(node, source, target):
        has_lines = (source.attribute("space") or space) == "preserve"
        yield read_unit(node, source, target, has_lines)


def is_done(node: Node, source: Node, target: Node | None) -> bool:
    """True if the target of a unit comes from a person or another program and must be kept.

    Either its state says so, or there is a translation and its state does not ask for a new one.
    """
    if target is None:
        return False
    opening = node.opening + target.opening
    content = target.content.strip()
    is_translated = content not in ("", source.content.strip())
    return bool(FINISHED.search(opening)) or (
        is_translated and not done_segments(source, target) and not WAITING.search(opening)
    )


def find_segments(node: Node) -> dict[str, Node]:
    """The segments of a source or a target in version 1, by number."""
    found = (each for each in node.walk() if each.name == "mrk")
    return {each.attribute("mid"): each for each in found if each.attribute("mtype") == "seg"}


def done_segments(source: Node, target: Node) -> dict[str, Node]:
    """The translated segments of a target; empty unless some segment still needs a translation."""
    texts = {key: each.content.strip() for key, each in find_segments(source).items()}
    waiting = {key: ("", text if is_language(text) else "") for key, text in texts.items()}
    found = find_segments(target).items()
    done = {key: each for key, each in found if each.content.strip() not in waiting.get(key, ("",))}
    return done if done.keys() < texts.keys() else {}


def read_unit(node: Node, source: Node, target: Node | None, has_lines: bool) -> Message:
    """Read a unit as a message. Markup in its source and finished segments become tags."""
    text, content = NumberedText(escape_xml), source.content
    has_tags = HAS_TAGS.search(content) is not None
    done = done_segments(source, target) if target else {}
    add_nodes(text, source.children, has_tags, has_lines and not has_tags, done)
    inner = source.inner
    changes = [
        (each.begin - inner, each.end - inner, done[key].markup)
        for key, each in find_segments(source).items()
        if key in done
    ]
    written = splice(source.text[inner : source.stop], changes)
    fill = partial(fill_unit, node, source, target)
    return Message(node.begin, content, text, written, set(), fill)


def add_nodes(
    text: NumberedText,
    nodes: Sequence[Node],
    has_tags: bool,
    has_lines: bool,
    done: dict[str, Node],
) -> None:
    """Add the content of a source to a text.

    Args:
        has_tags, has_lines: arguments of `add_message`.
        done: finished segments, by number, that replace those of the source.
    """
    for node in nodes:
        kind = node.attribute("mtype") if node.name else ""
        is_kept = node.translate == "no" or kind == "protected"
        if not node.name and node.content:
            add_message(text, node.content, has_tags, has_lines)
        elif kind == "seg" and (segment := done.get(node.attribute("mid"))):
            text.add_tag(Token("block", markup=segment.markup))
        elif node.name in AROUND and not is_kept:
            kinds: tuple[Kind, Kind] = ("block", "block") if kind == "seg" else ("open", "close")
            text.add_tag(Token(kinds[0], name=node.name, markup=node.opening))
            add_nodes(text, node.children, has_tags, has_lines, done)
            text.add_tag(Token(kinds[1], name=node.name, markup=node.closing))
        elif node.name in AROUND and 0 < len(node.content) <= MAX_COPIED:
            copied = " ".join(node.content.split())
            text.add_tag(Token("copy", text=copied, markup=node.markup))
        else:
            role, key = read_code(node)
            text.add_tag(Token(role, name=f"code {key}", markup=node.markup))


def read_code(node: Node) -> tuple[Kind, str]:
    """The kind of a code, and the key that it shares with its partner."""
    key = node.attribute("rid") or node.attribute("startRef") or node.attribute("id")
    side, _, name = key.partition("_")
    is_named = node.name == "x" and side in OPENING | CLOSING
    code, key = (side, name) if is_named else (node.name, key)
    return "open" if code in OPENING else "close" if code in CLOSING else "alone", key


def fill_unit(node: Node, source: Node, target: Node | None, inner: str) -> list[Change]:
    """The changes to the file that give a unit a target, marked for review."""
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

"""Messages of programs: their HTML, the syntax of ICU and the marks of shortcuts as tags."""

import html
import re
from collections.abc import Callable

from seq2seq.documents.files.numbered import NumberedText, Tag
from seq2seq.documents.html_markup import read_html
from seq2seq.documents.markup import Token

# A message is read as HTML if it has one of these; `prog <file>` is none.
HAS_TAGS = re.compile(
    r"</(?:\d+|[A-Za-z][\w:.-]*)\s*>|<(?:\d+|[A-Za-z][\w:.-]*)\s*/>|"
    r"<(?:br|hr|img|input|wbr)\b[^<>]*+>",
    re.I,
)
# Tags of i18next such as <0>, and letters that make no name of HTML, as which they are read.
NUMBERED_TAG = re.compile(r"</?\d+\s*/?>")
LETTERS = str.maketrans("0123456789", "cegjkvwxyz")
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,31});")
# The & before the letter of a shortcut, and in a message of ICU the # that stands for a number.
SHORTCUT = re.compile(r"((?:^|(?<=\s))&(?=[^\W\d_])(?!\w+;))")
SHORTCUT_OR_NUMBER = re.compile(rf"{SHORTCUT.pattern[:-1]}|#)")
ICU = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,|[{}]")


def is_plain(message: str) -> bool:
    """Whether a message has neither tags nor entities, shortcuts or choices of ICU."""
    is_marked = any(pattern.search(message) for pattern in (HAS_TAGS, ENTITY, SHORTCUT))
    return not is_marked and len(split_icu(message)) == 1


def add_message(
    text: NumberedText, message: str, has_tags: bool, encode: Callable[[str], str] = str
) -> None:
    """Add a message, or a part of one, to a text.

    Args:
        has_tags: whether it is read as HTML.
        encode: writes markup of the message as the file has it.
    """
    parts = split_icu(message)
    marks = SHORTCUT_OR_NUMBER if len(parts) > 1 else SHORTCUT
    for k, part in enumerate(parts):
        if k % 2:
            text.add_tag(Tag("block", encode(part)))
        else:
            add_html(text, part, has_tags, marks, encode)


def add_html(
    text: NumberedText,
    message: str,
    has_tags: bool,
    marks: re.Pattern[str],
    encode: Callable[[str], str],
) -> None:
    """Add a text with tags; `marks` are no text either."""
    read = NUMBERED_TAG.sub(lambda match: match[0].translate(LETTERS), message)
    tokens = read_html(read) if has_tags else [Token("text", 0, len(message))]
    for token in tokens:
        part = message[token.begin : token.end]
        if token.kind != "text":
            text.add_tag(Tag(token.kind, encode(part), f"html {token.name}"), token.text)
            continue
        for k, piece in enumerate(marks.split(part)):
            if k % 2:
                text.add_tag(Tag("alone", encode(piece)))
            else:
                text.add_text(ENTITY.sub(lambda match: html.unescape(match[0]), piece))


def entities_of(message: str) -> dict[int, str]:
    """The characters that a message writes as entities, for `str.translate`: a translation writes
    these as entities too, and all others as they are.
    """
    found = {html.unescape(entity): entity for entity in ENTITY.findall(message)}
    return {ord(plain): entity for plain, entity in found.items() if len(plain) == 1}


def split_icu(message: str) -> list[str]:
    """Return, by turns, texts and syntax of ICU such as `{n, plural, one {` and `}}`; the message
    alone if it has no such syntax, or braces that are not balanced.
    """
    parts: list[str] = []
    around: list[str] = []  # what is open: a choice, an option of one, or an argument
    begin = place = 0
    while match := ICU.search(message, place):
        start, place = match.span()
        inside = around[-1] if around else ""
        if match[0] == "}":
            if not around:
                return [message]
            around.pop()
            if inside != "argument":
                end = start if inside == "option" else place
                parts.append(message[begin:end])
                begin = end
        elif inside == "choice":
            around.append("option")
            place = start + 1
            parts.append(message[begin:place])
            begin = place
        elif match[0] == "{":
            around.append("argument")
        else:
            around.append("choice")
            parts.append(message[begin:start])
            begin = start
    return [message] if around else [*parts, message[begin:]]

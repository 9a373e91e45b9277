"""Messages of programs: HTML and the marks of shortcuts in them are tags."""

import html
import re
from collections import Counter
from collections.abc import Callable

from seq2seq.documents.files.numbered import NumberedText, Tag
from seq2seq.documents.html_markup import read_html
from seq2seq.documents.markup import Token
from seq2seq.documents.placeholders import find_placeholders

# A message is read as HTML if it has one of these; `prog <file>` is none.
HAS_TAGS = re.compile(
    r"</(?:\d+|[A-Za-z][\w:.-]*)\s*>|<(?:\d+|[A-Za-z][\w:.-]*)\s*/>|"
    r"<(?:a|b|br|div|em|font|hr|i|img|input|li|p|span|strong|u|wbr)\b[^<>]*+>",
    re.I,
)
# Tags of i18next such as <0>, and letters that make no name of HTML, as which they are read.
NUMBERED_TAG = re.compile(r"</?\d+\s*/?>")
LETTERS = str.maketrans("0123456789", "cegjkvwxyz")
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,31});")
# The & before the letter of a shortcut; and the ends of lines and cells.
SHORTCUT = re.compile(r"((?:^|(?<=\s))&(?=[^\W\d_])(?!\w+;))")
SHORTCUT_OR_LINE = re.compile(rf"{SHORTCUT.pattern[:-1]}|[\t\n]+)")
# The beginning of a choice of ICU: {count, plural, one {# file} other {# files}}.
CHOICE = re.compile(r"\{\s*+[\w.-]++\s*+,\s*+(?:plural|select|selectordinal)\s*+,")


def add_message(
    text: NumberedText,
    message: str,
    has_tags: bool,
    encode: Callable[[str], str] = str,
    marks: re.Pattern[str] = SHORTCUT,
) -> None:
    """Add a message, or a part of one, to a text.

    Args:
        has_tags: whether it is read as HTML.
        encode: writes markup of the message as the file has it.
        marks: what is no text beside tags.
    """
    read = NUMBERED_TAG.sub(lambda match: match[0].translate(LETTERS), message)
    tokens = read_html(read) if has_tags else [Token("text", 0, len(message))]
    for token in tokens:
        part = message[token.begin : token.end]
        if token.kind != "text":
            text.add_tag(Tag(token.kind, encode(part), f"html {token.name}"), token.text)
            continue
        for k, piece in enumerate(marks.split(part)):
            if k % 2:
                text.add_tag(Tag("alone" if piece == "&" else "block", encode(piece)))
            else:
                text.add_text(ENTITY.sub(lambda match: html.unescape(match[0]), piece))


def read_message(message: str) -> NumberedText:
    """A message with its tags. A sentence ends with its line, except in HTML."""
    text, has_tags = NumberedText(), HAS_TAGS.search(message) is not None
    add_message(text, message, has_tags, marks=SHORTCUT if has_tags else SHORTCUT_OR_LINE)
    return text


def differences(message: str, translation: str, signs: str = "{}") -> list[str]:
    """The placeholders and signs that a message and its translation do not have equally often; and
    the choices of one that was left as it is, so that a person translates them.
    """
    before, after = (
        find_placeholders(text) + Counter({sign: text.count(sign) for sign in signs})
        for text in (message, translation)
    )
    choices = CHOICE.findall(message) if translation == message else []
    return [*(before - after), *(after - before), *choices]


def render_message(
    text: NumberedText, message: str, translated: str, encode: Callable[[str], str] = str
) -> str:
    """Write the translation of a message. Characters that the message writes as entities are
    entities in it too, and all others stand as they are.
    """
    if translated == str(text):
        return encode(message)
    found = {html.unescape(entity): entity for entity in ENTITY.findall(message)}
    entities = {ord(plain): entity for plain, entity in found.items() if len(plain) == 1}
    return "".join(
        encode(part.translate(entities)) if isinstance(part, str) else part.markup
        for part in text.parts(translated)
    )

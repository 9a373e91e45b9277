"""Files of names and values (.json, .properties, .strings): translates the values."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Change, Contents, Cutter
from seq2seq.text.documents.files.messages import (
    Message,
    find_formats,
    open_messages,
    read_message,
)
from seq2seq.text.documents.markup import check_count

STRING = r'"(?:[^"\\]|\\.)*+"'
BLANK = r"[ \t\f]"
# Escapes of .properties and .strings. All but the named ones stand for the character after `\`.
ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|[uU]([0-9a-fA-F]{4})|(.))", re.S)
CONTROLS = dict(zip("ntrf", "\n\t\r\f", strict=True))


class Notation(NamedTuple):
    """A way to write names and values.

    Attributes:
        pattern: comments, names and values; `value` is the group of a value. Nothing but white
            space may stand between two matches.
        decode: function that returns the text of a value as written. Raises: ValueError.
        quotes: quotation marks around a value.
    """

    pattern: re.Pattern[str]
    decode: Callable[[str], str]
    quotes: str


def unescape(value: str) -> str:
    plain = ESCAPE.sub(
        lambda match: (
            chr(int(match[1], 16)) if match[1] else CONTROLS.get(match[2], match[2] or "")
        ),
        value,
    )
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")  # joins pairs of surrogates


NOTATIONS = {
    ".json": Notation(re.compile(rf"{STRING}\s*+:|(?P<value>{STRING})|[^\"]++"), json.loads, '"'),
    ".properties": Notation(
        re.compile(
            rf"(?m)^{BLANK}*+(?:[#!].*|(?:[^\\\s=:]|\\.)++(?:{BLANK}*+[=:]{BLANK}*+|{BLANK}++|(?=[\r\n]|\Z))"
            r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|(?s:.)))*+))"
        ),
        unescape,
        "",
    ),
    ".strings": Notation(
        re.compile(
            rf"(?s:/\*.*?\*/)|//.*|(?s:(?:{STRING}|[\w.-]++)\s*+=\s*+(?P<value>{STRING})\s*+;)"
        ),
        lambda value: unescape(value[1:-1]),
        '"',
    ),
}


def open_values(text: str, cut: Cutter, *, suffix: str) -> Contents:
    """The contents of a file of values. Raises: DataError if the file is not well-formed."""
    notation = NOTATIONS[suffix]
    is_escaped = text.isascii() and (suffix == ".properties" or "\\u" in text)
    if suffix == ".json":
        check_json(text)
    found: list[Message] = []
    place = len(text) - len(text.removeprefix("\ufeff"))
    for match in notation.pattern.finditer(text):
        check_gap(text, place, match.start())
        place = match.end()
        if match["value"]:
            plain = notation.decode(match["value"])
            fill = partial(fill_value, notation, match.span("value"), plain, is_escaped)
            formats = find_formats(plain)
            found.append(Message(match.start(), plain, read_message(plain), plain, formats, fill))
            check_count(len(found), "values")
    check_gap(text, place, len(text))
    return open_messages(text, found, cut)


def check_json(text: str) -> None:
    """Raises: DataError if a text is not JSON, or is nested too deeply."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"it is not valid JSON: {error}") from None


def check_gap(text: str, begin: int, end: int) -> None:
    """Raises: DataError if there is more than white space between two values."""
    if rest := text[begin:end].strip():
        line = text.count("\n", 0, text.index(rest, begin)) + 1
        raise DataError(f"line {line}: {rest[:40]!r} is not a name with a value")


def fill_value(
    notation: Notation, span: tuple[int, int], plain: str, is_escaped: bool, new: str
) -> list[Change]:
    """The change that writes a translation, in ASCII if `is_escaped`."""
    written = json.dumps(new, ensure_ascii=is_escaped)
    written = written if notation.quotes else written[1:-1].replace('\\"', '"')
    return [(*span, written)] if new != plain else []

"""Files of names and values (.json, .properties, .strings): translates the values."""

import json
import re
from collections.abc import Callable, Iterator
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
SPACE = re.compile(r"\s*+")
BLANK = r"[ \t\f]"
# Escapes of .properties and .strings. All but the named ones stand for the character after `\`.
ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|[uU]([0-9a-fA-F]{4})|(.))", re.S)
FIRST = re.compile(r"\A[ =:]")
CONTROLS = dict(zip("ntrf", "\n\t\r\f", strict=True))


class Notation(NamedTuple):
    """A way to write names and values.

    Attributes:
        pattern: comments, names and values; `value` is the group of a value.
        decode: function that returns the text of a value as written.
        has_quotes: whether a value has quotation marks.
    """

    pattern: re.Pattern[str]
    decode: Callable[[str], str]
    has_quotes: bool


def decode_value(value: str) -> str:
    """The text of a value in .properties or .strings."""

    def resolve(match: re.Match[str]) -> str:
        code, character = match.groups()
        return chr(int(code, 16)) if code else CONTROLS.get(character, character or "")

    return ESCAPE.sub(resolve, value)


NOTATIONS = {
    ".json": Notation(re.compile(rf"{STRING}\s*+:|(?P<value>{STRING})|[^\"]++"), json.loads, True),
    ".properties": Notation(
        re.compile(
            rf"(?:[#!].*|(?:[^\\\s=:]|\\.)++(?:{BLANK}*+[=:]{BLANK}*+|{BLANK}++|(?=[\r\n]|\Z))"
            r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|(?s:.)))*+))"
        ),
        decode_value,
        False,
    ),
    ".strings": Notation(
        re.compile(
            rf"(?s:/\*.*?\*/)|//.*|(?s:(?:{STRING}|[\w.-]++)\s*+=\s*+(?P<value>{STRING})\s*+;)"
        ),
        lambda value: decode_value(value[1:-1]),
        True,
    ),
}


def open_values(text: str, cut: Cutter, *, suffix: str) -> Contents:
    """The contents of a file of values. Raises: DataError if the file is not well-formed."""
    notation = NOTATIONS[suffix]
    is_escaped = text.isascii() and (suffix == ".properties" or "\\u" in text)
    if suffix == ".json":
        check_json(text)
    found: list[Message] = []
    for match in find_values(text, notation.pattern):
        if match["value"]:
            plain = notation.decode(match["value"])
            # Joins pairs of surrogates; half a pair is no character.
            plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            fill = partial(fill_value, notation, match.span("value"), plain, is_escaped)
            formats = find_formats(plain)
            found.append(Message(match.start(), plain, read_message(plain), plain, formats, fill))
            check_count(len(found), "values")
    return open_messages(text, found, cut)


def check_json(text: str) -> None:
    """Raises: DataError if a text is not JSON, or is nested too deeply."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"it is not valid JSON: {error}") from None


def find_values(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Comments, names and values in order. Raises: DataError at anything else."""
    place = len(text) - len(text.removeprefix("\ufeff").lstrip())
    while place < len(text):
        if not (match := pattern.match(text, place)):
            line, rest = text.count("\n", 0, place) + 1, text[place : place + 40].split("\n")[0]
            raise DataError(f"line {line}: {rest!r} is not a name with a value")
        yield match
        place = next(SPACE.finditer(text, match.end())).end()


def fill_value(
    notation: Notation, span: tuple[int, int], plain: str, is_escaped: bool, new: str
) -> list[Change]:
    """The change that writes a translation, in ASCII if `is_escaped`."""
    written = json.dumps(new, ensure_ascii=is_escaped)
    if not notation.has_quotes:  # a first space or sign would belong to what separates the value
        written = FIRST.sub(r"\\\g<0>", written[1:-1].replace('\\"', '"'))
    return [(*span, written)] if new != plain else []

"""Files of names and values (.json, .properties, .strings): translates the values."""

import json
import re
from collections.abc import Iterator
from functools import partial

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Change, Contents, Cutter
from seq2seq.text.documents.files.messages import Message, open_messages, plain_message
from seq2seq.text.documents.markup import check_count

INSIDE = r'(?:[^"\\]|\\.)*+'  # of quotation marks
SPACE = re.compile(r"\s*+")
BLANK = r"[ \t\f]"
# Comments, names and values of each format; `value` is a value without its quotation marks.
PATTERNS = {
    ".json": re.compile(rf'"{INSIDE}"\s*+:|"(?P<value>{INSIDE})"|[^"]++'),
    ".properties": re.compile(
        rf"(?:[#!].*|(?:[^\\\s=:]|\\.)++(?:{BLANK}*+[=:]{BLANK}*+|{BLANK}++|(?=[\r\n]|\Z))"
        r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|(?s:.)))*+))"
    ),
    ".strings": re.compile(  # `\351` is a character of NeXTSTEP's own encoding, and refused
        rf'(?s:/\*.*?\*/)|//.*|(?s:(?:"{INSIDE}"|[\w.-]++)\s*+=\s*+'
        r'"(?P<value>(?:[^"\\]|\\[^0-7])*+)"\s*+;)'
    ),
}
# Escapes of .properties and .strings. All but the named ones stand for the character after `\`.
ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|[uU]([0-9a-fA-F]{4})|(.))", re.S)
FIRST = re.compile(r"\A[ =:]")
CONTROLS = dict(zip("ntrf", "\n\t\r\f", strict=True))


def open_values(text: str, cut: Cutter, *, suffix: str) -> Contents:
    """The contents of a file of values. Raises: DataError if the file is not well-formed."""
    is_escaped = text.isascii() and (suffix == ".properties" or "\\u" in text)
    if suffix == ".json":
        check_json(text)
    found: list[Message] = []
    for match in find_values(text, PATTERNS[suffix]):
        if match["value"]:
            plain = plain_value(match["value"], suffix)
            fill = partial(fill_value, match.span("value"), suffix, plain, is_escaped)
            found.append(plain_message(match.start(), plain, fill))
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
            n, rest = text.count("\n", 0, place) + 1, text[place : place + 40].split("\n")[0]
            raise DataError(f"line {n}: {rest!r} is not a name with a value, or has octal escapes")
        yield match
        place = next(SPACE.finditer(text, match.end())).end()


def plain_value(written: str, suffix: str) -> str:
    """The text of a value."""

    def resolve(match: re.Match[str]) -> str:
        code, character = match.groups()
        return chr(int(code, 16)) if code else CONTROLS.get(character, character or "")

    is_json = suffix == ".json"
    plain: str = json.loads(f'"{written}"') if is_json else ESCAPE.sub(resolve, written)
    # Joins pairs of surrogates; half a pair is no character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fill_value(
    span: tuple[int, int], suffix: str, plain: str, is_escaped: bool, new: str
) -> list[Change]:
    """The change that writes a translation, in ASCII if `is_escaped`."""
    written = json.dumps(new, ensure_ascii=is_escaped)[1:-1]
    if suffix == ".properties":  # a first space or sign would belong to what separates the value
        written = FIRST.sub(r"\\\g<0>", written.replace('\\"', '"'))
    return [(*span, written)] if new != plain else []

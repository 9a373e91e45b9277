"""Catalogs of gettext (.po): translates the messages that have no translation yet."""

import re
from functools import partial
from typing import NoReturn

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Change, Contents, Cutter
from seq2seq.text.documents.files.encodings import MarkupFormat
from seq2seq.text.documents.files.messages import KEPT, Message, open_messages, plain_message
from seq2seq.text.documents.markup import check_count

# The declaration of the encoding, in the header.
DECLARATION = re.compile(
    r"""(?im)^(?!\#)[^\n]*?\bContent-Type:[ \t]*+[\w/.+-]*+[ \t]*+;[ \t"\r\n]*charset=([\w.:-]+)"""
)
STRING = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*+"')
# A keyword with its strings. Obsolete messages, after `#~`, are not matched.
FIELD = re.compile(
    r"(?m)^\ufeff?[ \t]*(msgctxt|msgid_plural|msgid|msgstr)(?:\[\d+\])?[ \t]*"
    rf"({STRING.pattern}(?:\s*+{STRING.pattern})*+)"
)
# Anything between fields that is neither blank nor a comment, or a line that ends with \r alone.
UNREADABLE = re.compile(r"(?m)^\ufeff?[^\S\n]*[^\s#\ufeff].*|\r(?!\n).*")
ENTRY = re.compile(r"(?:msgctxt )?msgid (?:msgid_plural )?(?:msgstr )+")
FLAGS = re.compile(r"^#[,=](.*)", re.M)
# Escapes without the group are kept: bytes in octal or hexadecimal digits, and unknown escapes.
ESCAPE = re.compile(r"\\(?:([abfnrtv]|\W)|[0-7]{1,3}|x[0-9a-fA-F]+|.)")
SPECIAL = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
ESCAPED = str.maketrans({character: rf"\{name}" for name, character in SPECIAL.items()})
ESCAPED |= {kept: chr(plain) for plain, kept in KEPT.items()}
FORMAT = re.compile(r"(?!no-|impossible-).*-format")  # flags for the kind of placeholders


def open_catalog(text: str, cut: Cutter) -> Contents:
    """The contents of a catalog. Raises: DataError if it is invalid or has too many messages."""
    return open_messages(text, find_messages(text, cut.fuzzy), cut)


def find_messages(text: str, is_fuzzy: bool = False) -> list[Message]:
    """The messages and plural forms without a translation.

    The header, obsolete messages, and fuzzy messages, which already have a draft translation, are
    left out.

    Args:
        is_fuzzy: whether to mark messages as fuzzy when they get a translation.
    """
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    messages: list[Message] = []
    begin = 0
    for entry in find_entries(text):
        end = entry[0].start()
        # Comments before an obsolete message belong to that message.
        begin = max(begin, text.rfind("\n#~", begin, end))
        lines = list(FLAGS.finditer(text, begin, end))
        begin = entry[-1].end()
        flags = {flag.strip() for line in lines for flag in line[1].split(",")}
        strings = {field[1]: read_string(field[2]) for field in entry}
        if not strings.get("msgid") or "fuzzy" in flags:
            continue
        place, mark = (lines[0].start(1), " fuzzy,") if lines else (end, f"#, fuzzy{end_of_line}")
        marks = [(place, place, mark)] if is_fuzzy else []
        formats = set(filter(FORMAT.fullmatch, flags))
        forms = [field for field in entry if field[1] == "msgstr"]
        plural = strings.get("msgid_plural", strings["msgid"])
        for number, form in enumerate(forms):
            source = strings["msgid"] if number == 0 and len(forms) > 1 else plural
            if not read_string(form[2]):
                fill = partial(fill_form, marks, form.span(2), end_of_line)
                messages.append(plain_message(forms[0].start(2), source, fill, formats))
                marks = []
    return messages


def find_entries(text: str) -> list[list[re.Match[str]]]:
    """The fields of each entry. Its translations are the last fields.

    Raises: DataError if a field is missing, or the catalog contains anything else.
    """
    entries: list[list[re.Match[str]]] = []
    place = 0
    for count, field in enumerate(FIELD.finditer(text), start=1):
        check_count(count, "strings of messages")
        check_gap(text, place, field.start())
        place = field.end()
        if not entries or (field[1] != "msgstr" and entries[-1][-1][1] == "msgstr"):
            entries.append([])
        entries[-1].append(field)
    check_gap(text, place, len(text))
    for entry in entries:
        if not ENTRY.fullmatch("".join(f"{field[1]} " for field in entry)):
            refuse_line(text, entry[0].start(), "this entry needs a msgid, and then a msgstr")
    return entries


def check_gap(text: str, begin: int, end: int) -> None:
    """Check a gap between two fields. Raises: DataError if it contains more than comments."""
    if found := UNREADABLE.search(text[begin:end]):
        place = begin + found.start()
        part = found[0].strip()[:60]
        refuse_line(
            text, place, f"{part!r} is not allowed in a catalog, whose lines should end with \\n"
        )


def refuse_line(text: str, place: int, fault: str) -> NoReturn:
    line = text.count("\n", 0, place) + 1
    raise DataError(f"line {line}: {fault}: msgfmt -c FILE says more")


def read_string(quoted: str) -> str:
    """The text of consecutive strings, which are quoted as in C."""
    text = "".join(string[1:-1] for string in STRING.findall(quoted))
    return ESCAPE.sub(
        lambda match: SPECIAL.get(match[1], match[1]) if match[1] else match[0].translate(KEPT),
        text,
    )


def fill_form(
    marks: list[Change], span: tuple[int, int], end_of_line: str, translation: str
) -> list[Change]:
    """The changes that add a translation, and flags for its entry."""
    return [*marks, (*span, write_string(translation, end_of_line))]


def write_string(text: str, end_of_line: str) -> str:
    """Quote a text as one string per line."""
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    strings = [f'"{line.translate(ESCAPED)}"' for line in lines]
    return end_of_line.join(['""', *strings] if len(lines) > 1 else strings)


CATALOG = MarkupFormat(DECLARATION, find_messages)

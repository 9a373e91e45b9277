"""PO, the catalogs of gettext: messages without a translation get one."""

import re
from functools import partial
from typing import NoReturn

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Change, Contents, Cutter
from seq2seq.text.documents.files.messages import KEPT, Message, open_messages, read_message
from seq2seq.text.documents.markup import check_count

STRING = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*+"')
# A keyword with its strings. Those of obsolete messages, after `#~`, do not count.
FIELD = re.compile(
    r"(?m)^\ufeff?[ \t]*(msgctxt|msgid_plural|msgid|msgstr)(?:\[\d+\])?[ \t]*"
    rf"({STRING.pattern}(?:\s*+{STRING.pattern})*+)"
)
# What stands between them is blank, or a comment; and no line ends with \r alone.
UNREADABLE = re.compile(r"(?m)^\ufeff?[^\S\n]*[^\s#\ufeff].*|\r(?!\n).*")
ENTRY = re.compile(r"(?:msgctxt )?msgid (?:msgid_plural )?(?:msgstr )+")
FLAGS = re.compile(r"^#[,=](.*)", re.M)
# Those without a group stay as they are: bytes in octal or hexadecimal digits, and unknown ones.
ESCAPE = re.compile(r"\\(?:([abfnrtv]|\W)|[0-7]{1,3}|x[0-9a-fA-F]+|.)")
SPECIAL = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
ESCAPED = str.maketrans({character: rf"\{name}" for name, character in SPECIAL.items()})
ESCAPED |= {kept: chr(plain) for plain, kept in KEPT.items()}
FORMAT = re.compile(r"(?!no-|impossible-).*-format")  # flags that say which placeholders there are


def open_catalog(text: str, cut: Cutter) -> Contents:
    """The contents of a catalog. Raises: DataError if it is damaged, or has too many messages."""
    return open_messages(text, find_messages(text, cut.fuzzy), cut)


def find_messages(text: str, is_fuzzy: bool = False) -> list[Message]:
    """The messages and plural forms without a translation.

    The header, obsolete messages, and fuzzy ones, which somebody has begun to translate, are left
    out.

    Args:
        is_fuzzy: whether to mark the messages that get a translation as fuzzy.
    """
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    messages: list[Message] = []
    begin = 0
    for entry in find_entries(text):
        end = entry[0].start()
        # What stands before an obsolete message is about that one.
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
                numbered, first = read_message(source), forms[0].start(2)
                messages.append(Message(first, source, numbered, source, formats, fill))
                marks = []
    return messages


def find_entries(text: str) -> list[list[re.Match[str]]]:
    """The fields of each entry; its translations are the last ones.

    Raises: DataError if there is anything else in the catalog, or a field is missing.
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
    """Check that there is nothing between two fields but comments. Raises: DataError."""
    if found := UNREADABLE.search(text[begin:end]):
        place = begin + found.start()
        part = found[0].strip()[:60]
        refuse_line(text, place, f"{part!r} is no part of a catalog, with lines that end with \\n")


def refuse_line(text: str, place: int, fault: str) -> NoReturn:
    line = text.count("\n", 0, place) + 1
    raise DataError(f"line {line}: {fault}: msgfmt -c FILE says more")


def read_string(quoted: str) -> str:
    """The text of quoted strings in C's manner, one after another."""
    text = "".join(string[1:-1] for string in STRING.findall(quoted))
    return ESCAPE.sub(
        lambda match: SPECIAL.get(match[1], match[1]) if match[1] else match[0].translate(KEPT),
        text,
    )


def fill_form(
    marks: list[Change], span: tuple[int, int], end_of_line: str, translation: str
) -> list[Change]:
    """The changes that fill in a translation, and add flags to its entry."""
    return [*marks, (*span, write_string(translation, end_of_line))]


def write_string(text: str, end_of_line: str) -> str:
    """A text as quoted strings, one for each of its lines."""
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    strings = [f'"{line.translate(ESCAPED)}"' for line in lines]
    return end_of_line.join(['""', *strings] if len(lines) > 1 else strings)

"""PO, the catalogs of gettext: messages without a translation get one."""

import re
from functools import partial

from seq2seq.documents.files.contents import Change, Contents, Cutter, decode_file
from seq2seq.documents.files.messages import Message, open_messages, read_message
from seq2seq.documents.limits import check_count

STRING = re.compile(r'"(?:[^"\\\r\n]|\\.)*+"')
# A keyword with its strings. Those of obsolete messages stand after `#~`, and are none.
FIELD = re.compile(
    r"(?m)^[ \t]*(msgctxt|msgid_plural|msgid|msgstr)(?:\[\d+\])?[ \t]*"
    rf"({STRING.pattern}(?:[ \t]*+(?:\r?\n[ \t]*+)?+{STRING.pattern})*+)"
)
FLAGS = re.compile(r"^#[,=](.*)", re.M)
ESCAPE = re.compile(r"\\(.)")
SPECIAL = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
ESCAPED = str.maketrans({character: rf"\{name}" for name, character in SPECIAL.items()})
FORMAT = re.compile(r"(?!no-|impossible-).*-format")  # flags that say which placeholders there are


def open_catalog(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if the data is not text, or has too many messages."""
    text = decode_file(data)
    return open_messages(text, find_messages(text, cut.fuzzy), cut)


def find_messages(text: str, is_fuzzy: bool = False) -> list[Message]:
    """The messages without a translation; of plural forms, each one that has none.

    The header, fuzzy messages, which somebody has begun to translate, and obsolete ones are none.

    Args:
        is_fuzzy: mark the messages that get a translation as fuzzy.
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
    """The fields of each entry. One ends with its translations."""
    entries: list[list[re.Match[str]]] = []
    for count, field in enumerate(FIELD.finditer(text), start=1):
        check_count(count, "strings of messages")
        if not entries or (field[1] != "msgstr" and entries[-1][-1][1] == "msgstr"):
            entries.append([])
        entries[-1].append(field)
    return entries


def read_string(quoted: str) -> str:
    """The text of quoted strings in C's manner, one after another."""
    text = "".join(string[1:-1] for string in STRING.findall(quoted))
    return ESCAPE.sub(lambda match: SPECIAL.get(match[1], match[1]), text)


def fill_form(
    marks: list[Change], span: tuple[int, int], end_of_line: str, translation: str
) -> list[Change]:
    """The changes that give a message its translation, and its entry some marks."""
    return [*marks, (*span, write_string(translation, end_of_line))]


def write_string(text: str, end_of_line: str) -> str:
    """A text as quoted strings; several if it has several lines."""
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    strings = [f'"{line.translate(ESCAPED)}"' for line in lines]
    return end_of_line.join(['""', *strings] if len(lines) > 1 else strings)

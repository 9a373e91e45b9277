"""PO, the catalogs of gettext: messages without a translation get one."""

import re
from collections.abc import Sequence
from functools import partial

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.html_markup import read_html

# A keyword with its strings. Those of obsolete messages stand after `#~`, and are none.
FIELD = re.compile(
    r"^[ \t]*(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]*"
    r'((?:"(?:[^"\\\r\n]|\\.)*+"[ \t]*(?:\r?\n[ \t]*(?="))?)+)',
    re.M,
)
FLAGS = re.compile(r"^#,.*\bfuzzy\b", re.M)
STRING = re.compile(r'"((?:[^"\\\r\n]|\\.)*+)"')
ESCAPE = re.compile(r"\\(.)")
SPECIAL = {"n": "\n", "t": "\t", "r": "\r"}
ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
HAS_TAGS = re.compile(r"</[A-Za-z][A-Za-z0-9]*>|<br ?/?>")


def open_catalog(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if it is no text."""
    text = decode_file(data)
    messages = find_messages(text)
    read = [read_html if HAS_TAGS.search(message) else None for message, _, _ in messages]
    documents = [cut(message, how) for (message, _, _), how in zip(messages, read, strict=True)]
    return Contents(documents, partial(write_catalog, text, messages))


def find_messages(text: str) -> list[tuple[str, int, int]]:
    """Each message, of plural forms each form, without a translation; and the place for it.

    The header, fuzzy messages, which somebody has begun to translate, and obsolete ones are none.
    """
    fields = list(FIELD.finditer(text))
    # An entry ends with its translations.
    starts = [
        k
        for k, match in enumerate(fields)
        if match[1] != "msgstr" and (not k or fields[k - 1][1] == "msgstr")
    ]
    messages = []
    for first, stop in zip(starts, [*starts[1:], len(fields)], strict=False):
        entry = fields[first:stop]
        before = text[fields[first - 1].end() if first else 0 : entry[0].start()]
        comments = before.replace("\r", "").rpartition("\n\n")[2]
        strings = {match[1]: read_string(match[3]) for match in entry}
        forms = [match for match in entry if match[1] == "msgstr"]
        if not strings.get("msgid") or FLAGS.search(comments):
            continue
        plural = strings.get("msgid_plural", strings["msgid"])
        for number, form in enumerate(forms):
            message = strings["msgid"] if number == 0 and len(forms) > 1 else plural
            if not read_string(form[3]):
                messages.append((message, form.start(3), form.end(3)))
    return messages


def read_string(quoted: str) -> str:
    """The text of quoted strings in C's manner, one after another."""
    text = "".join(STRING.findall(quoted))
    return ESCAPE.sub(lambda match: SPECIAL.get(match[1], match[1]), text)


def write_catalog(
    text: str, messages: Sequence[tuple[str, int, int]], translated: Sequence[str]
) -> bytes:
    """The file with translations; a message of several lines as several strings."""
    changes = []
    for (_, begin, end), new in zip(messages, translated, strict=True):
        lines = new.splitlines(keepends=True) if "\n" in new.rstrip("\n") else [new]
        strings = [f'"{line.translate(ESCAPED)}"' for line in lines]
        strings = ['""', *strings] if len(lines) > 1 else strings
        end_of_line = "\r\n" if "\r\n" in text else "\n"
        changes.append((begin, begin + len(text[begin:end].rstrip()), end_of_line.join(strings)))
    return splice(text, changes).encode()

"""PO, the catalogs of gettext: messages without a translation get one."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.files.messages import CHOICE, differences, read_message, render_message
from seq2seq.documents.files.numbered import NumberedText
from seq2seq.documents.limits import check_count

# A keyword with its strings. Those of obsolete messages stand after `#~`, and are none.
FIELD = re.compile(
    r"^[ \t]*(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]*"
    r'((?:"(?:[^"\\\r\n]|\\.)*+"[ \t]*(?:\r?\n[ \t]*(?="))?)+)',
    re.M,
)
FLAGS = re.compile(r"^#[,=](.*)", re.M)
STRING = re.compile(r'"((?:[^"\\\r\n]|\\.)*+)"')
ESCAPE = re.compile(r"\\(.)")
SPECIAL = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
ESCAPED = str.maketrans(
    {"\\": r"\\", '"': r"\"", **{character: rf"\{name}" for name, character in SPECIAL.items()}}
)
# Directives of printf, which translations must have in the same order unless they are numbered or
# named; and the flags of the languages that have them. A % without one is an error there.
DIRECTIVE = re.compile(
    r"%(?:%|(?P<key>\d+\$|\(\w+\)|<\w+>)?[-+ #0'I]*+(?:\*|\d++)?+(?:\.(?:\*|\d*+))?+"
    r"(?:hh|h|ll|l|L|q|j|z|t)?[A-Za-z@])?"
)
PERCENT_FLAG = re.compile(r"(?:c|objc|python|perl|php|awk|lua|tcl|ruby|object-pascal)-format")


class Message(NamedTuple):
    """A message to translate: of plural forms each one that has no translation.

    Attributes:
        source, text: its text, and the same with tags.
        begin, end: the place of its translation.
        flag_place, flag: where its entry can be marked as fuzzy, and the mark.
        formats: the flags that say which placeholders it has, such as c-format.
    """

    source: str
    text: NumberedText
    begin: int
    end: int
    flag_place: int
    flag: str
    formats: set[str]


def open_catalog(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if the data is not text, or has too many messages."""
    text = decode_file(data)
    messages = find_messages(text)
    problems: list[str] = []
    write = partial(write_catalog, text, messages, cut.fuzzy, problems)
    return Contents([message.text.cut(cut) for message in messages], write, problems)


def find_messages(text: str) -> list[Message]:
    """The messages without a translation.

    The header, fuzzy messages, which somebody has begun to translate, and obsolete ones are none.
    """
    entries: list[list[re.Match[str]]] = []
    for count, field in enumerate(FIELD.finditer(text), start=1):
        check_count(count, "strings of messages")
        if field[1] != "msgstr" and (not entries or entries[-1][-1][1] == "msgstr"):
            entries.append([])  # the one before ended with its translations
        if entries:
            entries[-1].append(field)
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    messages, begin = [], 0
    for entry in entries:
        end = entry[0].start()
        # What stands before an obsolete message is about that one.
        begin = max(begin, text.rfind("\n#~", begin, end))
        lines = list(FLAGS.finditer(text, begin, end))
        begin = entry[-1].end()
        flags = {flag.strip() for line in lines for flag in line[1].split(",")}
        strings = {field[1]: read_string(field[3]) for field in entry}
        forms = [field for field in entry if field[1] == "msgstr"]
        if not strings.get("msgid") or "fuzzy" in flags:
            continue
        mark = (lines[0].start(1), " fuzzy,") if lines else (end, f"#, fuzzy{end_of_line}")
        formats = {each for each in flags if re.fullmatch(r"(?!no-|impossible-).*-format", each)}
        plural = strings.get("msgid_plural", strings["msgid"])
        for number, form in enumerate(forms):
            source = strings["msgid"] if number == 0 and len(forms) > 1 else plural
            if not read_string(form[3]):
                place = form.start(3), form.start(3) + len(form[3].rstrip())
                messages.append(Message(source, read_message(source), *place, *mark, formats))
    return messages


def read_string(quoted: str) -> str:
    """The text of quoted strings in C's manner, one after another."""
    text = "".join(STRING.findall(quoted))
    return ESCAPE.sub(lambda match: SPECIAL.get(match[1], match[1]), text)


def write_catalog(
    text: str,
    messages: Sequence[Message],
    is_fuzzy: bool,
    problems: list[str],
    translated: Sequence[str],
) -> bytes:
    """The file with translations. `problems` names those that a program could not use, which are
    left out.
    """
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    changes: list[tuple[int, int, str]] = []
    line, place = 1, 0
    problems.clear()
    pairs = zip(messages, translated, strict=True)
    for flag_place, group in groupby(pairs, lambda pair: pair[0].flag_place):
        entry = [(each, render_message(each.text, each.source, new)) for each, new in group]
        if lost := [each for message, new in entry for each in find_differences(message, new)]:
            line, place = line + text.count("\n", place, entry[0][0].begin), entry[0][0].begin
            problems.append(
                f"line {line}: {entry[0][0].source[:60]!r} stays without a translation: a person "
                f"should see to {', '.join(dict.fromkeys(lost))}"
            )
            continue
        changes += [(flag_place, flag_place, entry[0][0].flag)] if is_fuzzy else []
        changes += [(each.begin, each.end, write_string(new, end_of_line)) for each, new in entry]
    return splice(text, changes).encode()


def find_differences(message: Message, translation: str) -> list[str]:
    """The placeholders that a message and its translation do not share, if a flag says that it has
    some: a program could not use the translation.
    """
    if not message.formats:
        return CHOICE.findall(message.source) if translation == message.source else []
    # Lisp's placeholders begin with ~, and in Java an apostrophe makes text of what follows it.
    signs = "{}~'" if "java-format" in message.formats else "{}~"
    changed = differences(message.source, translation, signs)
    if any(map(PERCENT_FLAG.fullmatch, message.formats)):
        wanted, found = find_directives(message.source), find_directives(translation)
        changed += [] if wanted == found else [*wanted, *found]
    return changed


def find_directives(text: str) -> list[str]:
    """The directives of printf in a text, in their order, if that matters."""
    found = [match for match in DIRECTIVE.finditer(text) if match[0] != "%%"]
    directives = [match[0] for match in found]
    return sorted(directives) if all(match["key"] for match in found) else directives


def write_string(text: str, end_of_line: str) -> str:
    """A text as quoted strings; several if it has several lines."""
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    strings = [f'"{line.translate(ESCAPED)}"' for line in lines]
    return end_of_line.join(['""', *strings] if len(lines) > 1 else strings)

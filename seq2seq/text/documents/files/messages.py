"""Messages of programs, in which HTML and the marks of keyboard shortcuts become tags.

Each translation is compared with its source, since a program cannot use a translation without the
same placeholders.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from itertools import groupby
from typing import NamedTuple

from seq2seq.text.documents.files.contents import Change, Contents, Cutter, NumberedText, splice
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.markup import Kind, Token
from seq2seq.text.documents.placeholders import ICU_MESSAGE, find_placeholders

# Tags by which a message is recognized as HTML; `prog <file>` is not.
HAS_TAGS = re.compile(
    r"(?i)<(?:/(?:\d+|[a-z][\w:.-]*)\s*|(?:\d+|[a-z][\w:.-]*)\s*/|"
    r"(?:a|b|br|div|em|font|hr|i|img|input|li|p|span|strong|u|wbr)\b[^<>]*+)>"
)
# Tags of i18next such as <0> are read as HTML after replacing their digits by letters, of which no
# name of an HTML element consists.
NUMBERED_TAG = re.compile(r"</?\d+\s*/?>")
LETTERS = str.maketrans("0123456789", "cegjkvwxyz")
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,31});")
# Maps characters that a format must keep to code points that occur in no text.
KEPT = {code: 0xDC00 + code for code in range(128)}
# Ends of lines and cells, the mark before the letter of a shortcut, and kept characters, as in the
# escape sequence of a terminal color.
MARK = re.compile(
    r"([\t\n\r]+|(?:^|(?<=\s))&(?=[^\W\d_])(?!\w+;)|[\udc00-\udc7f]+(?:\[[\d;]*[mK])?)"
)
# Flags of languages with the directives of printf, where a % without a directive is an error; and
# the directives, which must keep their order in a translation unless they are numbered or named.
PERCENT_FORMAT = re.compile(r"(?:c|objc|python|perl|php|awk|lua|tcl|ruby|object-pascal)-format")
DIRECTIVE = re.compile(
    r"%(?P<key>\d+\$|\(\w+\)|<\w+>)?+[-+ #0'I*.\d]*+(?:hh?|ll?|[Lqjzt])?[A-Za-z@%]?"
)


class Message(NamedTuple):
    """A message to translate.

    Attributes:
        entry: place of its entry in the file. Either all messages of an entry, such as its plural
            forms, get a translation, or none do.
        source, text: text of the message, plain and with tags.
        written: text of the message as encoded in the file.
        formats: flags for the kind of placeholders in the message, such as c-format.
        fill: function that returns the changes to the file for a translation.
    """

    entry: int
    source: str
    text: NumberedText
    written: str
    formats: Set[str]
    fill: Callable[[str], list[Change]]


def open_messages(file: str, messages: Sequence[Message], cut: Cutter) -> Contents:
    """The contents of a file of messages. Translations that a program could not use are discarded
    and reported in `problems`.
    """
    problems: list[str] = []

    def write(translated: Sequence[str]) -> bytes:
        changes: list[Change] = []
        line, place = 1, 0
        problems.clear()
        pairs = zip(messages, translated, strict=True)
        for begin, group in groupby(pairs, lambda pair: pair[0].entry):
            entry = [(message, render_message(message, new)) for message, new in group]
            line, place = line + file.count("\n", place, begin), begin
            if problem := find_problem(entry):
                problems.append(f"line {line}: {problem}")
            else:
                changes += [change for message, new in entry for change in message.fill(new)]
        return splice(file, changes).encode()

    return Contents([message.text.cut(cut) for message in messages], write, problems)


def find_problem(entry: Sequence[tuple[Message, str]]) -> str:
    """A message about an entry whose translations cannot be used; empty if they can.

    Args:
        entry: messages, each with its translation as it would be written to the file.
    """
    lost = [fault for message, new in entry for fault in find_faults(message, new)]
    named = ", ".join(dict.fromkeys(lost))
    source = entry[0][0].source[:60]
    problem = f"{source!r} is not translated, to protect {named}: translate it by hand"
    return problem if lost else ""


def find_faults(message: Message, new: str) -> list[str]:
    """Faults that make a translation unusable: placeholders that are missing or added. Without a
    flag for placeholders, only those with braces count. An ICU message that stays untranslated is a
    fault, too.

    Args:
        new: translation as it would be written to the file.
    """
    if new == message.written:
        return ICU_MESSAGE.findall(new)
    # Lisp's placeholders begin with ~, and in Java an apostrophe begins quoted text.
    signs = "{}~'" if "java-format" in message.formats else "{}~"
    before, after = (
        find_placeholders(text) + Counter({sign: text.count(sign) for sign in signs})
        for text in (message.written, new)
    )
    changed = [*(before - after), *(after - before)]
    if not message.formats:
        return [each for each in changed if "{" in each or "}" in each]
    if any(map(PERCENT_FORMAT.fullmatch, message.formats)):
        wanted, found = find_directives(message.written), find_directives(new)
        changed += [] if wanted == found else [*wanted, *found]
    return changed


def find_directives(text: str) -> list[str]:
    """The directives of printf in a text: sorted if all have a number or name, else in order."""
    found = [match for match in DIRECTIVE.finditer(text) if match[0] != "%%"]
    directives = [match[0] for match in found]
    return sorted(directives) if all(match["key"] for match in found) else directives


def render_message(message: Message, translated: str) -> str:
    """The translation of a message, encoded for the file. Characters that the source writes as
    entities become entities again.
    """
    if translated == str(message.text):
        return message.written
    found = {html.unescape(entity): entity for entity in ENTITY.findall(message.source)}
    entities = {ord(plain): entity for plain, entity in found.items() if len(plain) == 1}
    return "".join(
        part.markup or message.text.encode(part.text.translate(entities))
        for part in message.text.parts(translated)
    )


def add_message(text: NumberedText, message: str, has_tags: bool, has_lines: bool = False) -> None:
    """Add a message, or a part of one, to a text.

    Args:
        has_tags: whether to read the message as HTML.
        has_lines: whether sentences end at line ends.
    """
    read = NUMBERED_TAG.sub(lambda match: match[0].translate(LETTERS), message)
    tokens = read_html(read) if has_tags else [Token("text", 0, len(message))]
    for token in tokens:
        part = message[token.begin : token.end]
        if token.kind != "text":
            name = f"html {token.name}"
            text.add_tag(token._replace(name=name, markup=text.encode(part)))
            continue
        for k, piece in enumerate(MARK.split(part)):
            if k % 2 and (has_lines or not piece.isspace()):
                kind: Kind = "block" if piece.isspace() else "alone"
                text.add_tag(Token(kind, markup=text.encode(piece)))
            else:
                text.add_text(ENTITY.sub(lambda match: html.unescape(match[0]), piece))


def plain_message(
    entry: int, source: str, fill: Callable[[str], list[Change]], formats: Set[str] | None = None
) -> Message:
    """A message whose text is written as it is. Sentences end at line ends, except in HTML.

    Args:
        entry, source, fill: as in `Message`.
        formats: as in `Message`; None for a file that has no flags.
    """
    text, has_tags = NumberedText(), HAS_TAGS.search(source) is not None
    add_message(text, source, has_tags, not has_tags)
    if formats is None:
        has_percent = any("%" in each for each in find_placeholders(source))
        formats = {"c-format"} if has_percent else set()
    return Message(entry, source, text, source, formats, fill)

"""The tokens of a text with tags, and its references to characters."""

import html
import re
from array import array
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from seq2seq.base.errors import DataError

# Elements, tags, cues, messages, blocks or paragraphs of a file. Each costs about a kilobyte and
# some microseconds, so that a file of a few kilobytes could otherwise take gigabytes.
MAX_ELEMENTS = 200_000
# Python reads no number of more than 4,300 digits.
REFERENCE = re.compile(r"&(?:#\d{1,4300}+(?!\d)|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")
# Elements that are no part of the word before them: notes and exponents without a word, and always
# the pronunciation of a word.
NOTES, PRONUNCIATIONS = {"sup", "sub"}, {"rt", "rp"}
TRADEMARKS = {"TM", "SM"}
LONGEST_NOTE = 20  # tokens
Kind = Literal["text", "open", "close", "alone", "copy", "block"]


class Token(NamedTuple):
    """A tag of a document, or a text between two tags. The tokens of a text follow one another
    without a gap.

    Kinds: `text`, which is translated; `open` and `close`, tags inside a sentence; `alone`, what
    stands inside a sentence without any text of it, such as an image or a comment; `copy`, an
    element inside a sentence whose content is not translated; `block`, where sentences end.

    Attributes:
        begin, end: place in the document, `document[begin:end]`.
        name: name of a tag, by which those that close find those that open.
        text: text that stands for it in its sentence: the content of a copied element, or a space
            for a line break.
        markup: tag as it stands in its file, if the document has a numbered tag in its place.
    """

    kind: Kind
    begin: int = 0
    end: int = 0
    name: str = ""
    text: str = ""
    markup: str = ""


Reader = Callable[[str], list[Token]]


def check_count(count: int, what: str = "elements") -> None:
    """Limit the elements of a file while it is parsed, before memory is taken.

    Raises: DataError if there are more than `MAX_ELEMENTS`.
    """
    if count > MAX_ELEMENTS:
        raise DataError(f"it has more than {MAX_ELEMENTS:,} {what}: cut it into several files")


def unescape(text: str, offset: int = 0) -> tuple[str, Sequence[int]]:
    """Resolve references. Returns: the text, and the place where each of its characters begins,
    then the end.

    Args:
        offset: place of the text, added to all places.
    """
    if "&" not in text:
        return text, range(offset, offset + len(text) + 1)
    characters: list[str] = []
    begins = array("I")  # four bytes a character: texts may be long
    place = 0
    for match in REFERENCE.finditer(text):
        plain = html.unescape(match[0])
        characters += [text[place : match.start()], plain]
        begins.extend(range(offset + place, offset + match.start()))
        begins.extend([offset + match.start()] * len(plain))
        place = match.end()
    begins.extend(range(offset + place, offset + len(text) + 1))
    return "".join([*characters, text[place:]]), begins


def set_notes_apart(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Replace each note or pronunciation by a single token that stands alone."""
    joined: list[Token] = []
    opened: list[int] = []  # where notes begin in `joined`
    for token in tokens:
        name = joined[opened[-1]].name if opened else ""
        is_next = token.kind == "open" and token.name in PRONUNCIATIONS
        if name in PRONUNCIATIONS and (is_next or (token.kind, token.name) == ("close", "ruby")):
            join_note(text, joined, opened.pop())  # its end tag may be left out
        joined.append(token)
        if token.kind == "block":
            opened.clear()
        elif token.kind == "open" and token.name in NOTES | PRONUNCIATIONS:
            opened.append(len(joined) - 1)
        elif token.kind == "close" and opened and token.name == joined[opened[-1]].name:
            join_note(text, joined, opened.pop())
    return joined


def join_note(text: str, tokens: list[Token], start: int) -> None:
    """Join the tokens from `start` on if they are a note or a pronunciation."""
    first, *others = tokens[start : start + LONGEST_NOTE]
    content = "".join(
        unescape(text[each.begin : each.end])[0] if each.kind == "text" else each.text
        for each in others
    )
    is_note = not any(map(str.isalpha, content)) or content.strip() in TRADEMARKS
    if len(tokens) - start <= LONGEST_NOTE and (first.name in PRONUNCIATIONS or is_note):
        tokens[start:] = [Token("alone", first.begin, tokens[-1].end, first.name)]

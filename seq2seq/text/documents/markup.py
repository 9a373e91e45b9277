"""The tokens of a text with tags, and its character references."""

import html
import re
from array import array
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from seq2seq.base.errors import DataError

# Most elements, tags, cues, messages, blocks or paragraphs in a file. Each takes about a kilobyte
# and some microseconds, so without a limit a file of a few kilobytes could take gigabytes.
MAX_ELEMENTS = 200_000
# Python does not convert numbers of more than 4,300 digits.
REFERENCE = re.compile(r"&(?:#\d{1,4300}+(?!\d)|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")
# Elements that do not belong to the word before them: notes and exponents, if they contain no
# letters, and the pronunciation of a word, always.
NOTES, PRONUNCIATIONS = {"sup", "sub"}, {"rt", "rp"}
TRADEMARKS = {"TM", "SM"}
LONGEST_NOTE = 20  # tokens
Kind = Literal["text", "open", "close", "alone", "copy", "block"]


class Token(NamedTuple):
    """A tag of a document, or a text between two tags. The tokens of a document cover it without
    gaps.

    Kinds: `text` is translated; `open` and `close` are a pair of tags inside a sentence; `alone` is
    markup inside a sentence without text, such as an image or a comment; `copy` is an element
    inside a sentence whose content is copied; `block` is anything that ends a sentence.

    Attributes:
        begin, end: place in the document, `document[begin:end]`.
        name: name of the tag; a closing tag has the name of its opening tag.
        text: text that represents the tag in the sentence: the content of a copied element, or a
            space for a line break.
        markup: source text of the tag in the file, if the document has a numbered tag instead.
    """

    kind: Kind
    begin: int = 0
    end: int = 0
    name: str = ""
    text: str = ""
    markup: str = ""


Reader = Callable[[str], list[Token]]


def check_count(count: int, what: str = "elements") -> None:
    """Limit the elements of a file during parsing, before they take memory.

    Raises: DataError if there are more than `MAX_ELEMENTS`.
    """
    if count > MAX_ELEMENTS:
        raise DataError(f"it has more than {MAX_ELEMENTS:,} {what}: cut it into several files")


def unescape(text: str, offset: int = 0) -> tuple[str, Sequence[int]]:
    """Resolve character references. Returns: the text, and the place where each of its characters
    begins in the source, followed by the place where the last one ends.

    Args:
        offset: place of the text in the document; added to all places.
    """
    if "&" not in text:
        return text, range(offset, offset + len(text) + 1)
    characters: list[str] = []
    begins = array("I")  # takes four bytes for each character; texts may be long
    place = 0
    for match in REFERENCE.finditer(text):
        plain = html.unescape(match[0])
        characters += [text[place : match.start()], plain]
        begins.extend(range(offset + place, offset + match.start()))
        begins.extend([offset + match.start()] * len(plain))
        place = match.end()
    begins.extend(range(offset + place, offset + len(text) + 1))
    return "".join([*characters, text[place:]]), begins


def text_of_token(text: str, token: Token) -> str:
    """The text of a token in its sentence, with its references resolved."""
    return unescape(text[token.begin : token.end])[0] if token.kind == "text" else token.text


def set_notes_apart(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Replace each note or pronunciation by a single token of the kind `alone`."""
    joined: list[Token] = []
    opened: list[int] = []  # indices in `joined` where notes begin
    for token in tokens:
        name = joined[opened[-1]].name if opened else ""
        is_next = token.kind == "open" and token.name in PRONUNCIATIONS
        if name in PRONUNCIATIONS and (is_next or (token.kind, token.name) == ("close", "ruby")):
            join_note(text, joined, opened.pop())  # the end tag is optional
        joined.append(token)
        if token.kind == "block":
            opened.clear()
        elif token.kind == "open" and token.name in NOTES | PRONUNCIATIONS:
            opened.append(len(joined) - 1)
        elif token.kind == "close" and opened and token.name == joined[opened[-1]].name:
            join_note(text, joined, opened.pop())
    return joined


def join_note(text: str, tokens: list[Token], start: int) -> None:
    """Join the tokens from index `start` on into one if they are a note or a pronunciation."""
    first, *others = tokens[start : start + LONGEST_NOTE]
    content = "".join(text_of_token(text, each) for each in others)
    is_note = not any(map(str.isalpha, content)) or content.strip() in TRADEMARKS
    if len(tokens) - start <= LONGEST_NOTE and (first.name in PRONUNCIATIONS or is_note):
        tokens[start:] = [Token("alone", first.begin, tokens[-1].end, first.name)]

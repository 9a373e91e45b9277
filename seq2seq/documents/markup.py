"""The tokens of a text with tags, and its references to characters."""

import html
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

# Python reads no number of more than 4,300 digits.
REFERENCE = re.compile(r"&(?:#\d{1,4300}+(?!\d)|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")


class Token(NamedTuple):
    """A part of a text with tags, `document[begin:end]`. The tokens of a text follow one another
    without a gap.

    Kinds: `text`, which is translated; `open` and `close`, tags inside a sentence; `alone`, what
    stands inside a sentence without any text of it, such as an image or a comment; `copy`, an
    element inside a sentence whose content is not translated; `block`, where sentences end.

    Attributes:
        name: of a tag, by which those that close find those that open.
        text: what stands for it in its sentence: the content of what is copied, a space for a line
            break, else nothing.
    """

    kind: Literal["text", "open", "close", "alone", "copy", "block"]
    begin: int
    end: int
    name: str = ""
    text: str = ""


Reader = Callable[[str], list[Token]]


def unescape(text: str) -> tuple[str, list[int]]:
    """A text without references, and where in `text` each character of it begins; then the end."""
    characters: list[str] = []
    begins: list[int] = []
    place = 0
    for match in REFERENCE.finditer(text):
        plain = html.unescape(match[0])
        characters += [text[place : match.start()], plain]
        begins += [*range(place, match.start()), *[match.start()] * len(plain)]
        place = match.end()
    return "".join([*characters, text[place:]]), [*begins, *range(place, len(text) + 1)]

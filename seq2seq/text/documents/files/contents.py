"""The texts of a file, each a document, and the way back to a file.

What a format has inside its sentences stands in such a text as a numbered tag, `<12>`.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seq2seq.text.documents.document import Document, escape_text
from seq2seq.text.documents.inline import pair_tags
from seq2seq.text.documents.markup import Reader, Token, check_count

NUMBER = re.compile(r"<(\d+)>")
Change = tuple[int, int, str]  # begin and end of a span of a text, and its new text


@dataclass(frozen=True)
class Contents:
    """The texts of a file, to be translated.

    Attributes:
        documents: texts in their order.
        write: function that makes the file from a translation of each text. Raises DataError if
            the result could not be read again.
        problems: messages about text that `write` could not put into the file.
    """

    documents: list[Document]
    write: Callable[[Sequence[str]], bytes]
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cutter:
    """Cuts the texts of a file into sentences.

    Attributes:
        language, whole: arguments of `Document.of`.
        fuzzy: whether to mark the messages that are filled in a .po file as `fuzzy`, for a person
            to check.
    """

    language: str | None
    whole: bool = True
    fuzzy: bool = False

    def __call__(self, text: str, read: Reader | None = None) -> Document:
        return Document.of(text, self.language, read=read, whole=self.whole)


class NumberedText:
    """A text with numbered tags, to which parts are added in their order.

    Attributes:
        encode: function that writes a text as the file has it.
        tags: tags by their numbers, with their places in the file if these matter.
    """

    __slots__ = ("_parts", "_tokens", "encode", "tags")

    def __init__(self, encode: Callable[[str], str] = str) -> None:
        self.encode = encode
        self.tags: list[Token] = []
        self._parts: list[str] = []
        self._tokens: list[Token] = []

    def __str__(self) -> str:
        return "".join(self._parts)

    def add_text(self, text: str) -> None:
        if text:
            self._add(Token("text"), escape_text(text))

    def add_tag(self, tag: Token) -> None:
        """Add the next tag. Raises: DataError if there are too many."""
        check_count(len(self.tags), "tags in one text")
        self._add(tag, f"<{len(self.tags)}>")
        self.tags.append(tag)

    def _add(self, token: Token, part: str) -> None:
        begin = self._tokens[-1].end if self._tokens else 0
        self._parts.append(part)
        self._tokens.append(token._replace(begin=begin, end=begin + len(part)))

    def cut(self, cutter: Cutter) -> Document:
        return cutter(str(self), lambda _: self._tokens)

    def parts(self, translated: str) -> Iterator[Token]:
        """The texts and tags of the translated text: each tag once, and all pairs well nested.

        The tags of a pair around several sentences may move apart, so a closing tag stands for the
        one that closes the innermost open pair.
        """
        partners = pair_tags([token for token in self._tokens if token.kind != "text"])
        around: list[int] = []  # open pairs
        for place, part in enumerate(NUMBER.split(translated)):
            if place % 2 == 0:
                yield from [Token("text", text=html.unescape(part))] if part else []
            elif int(part) not in partners:
                yield self.tags[int(part)]
            elif self.tags[int(part)].kind == "open":
                around.append(int(part))
                yield self.tags[int(part)]
            elif around:
                yield self.tags[partners[around.pop()]]
        while around:
            yield self.tags[partners[around.pop()]]


def splice(text: str, changes: Sequence[Change]) -> str:
    """Replace some spans of a text, which are in order."""
    parts, place = [], 0
    for begin, end, new in changes:
        parts += [text[place:begin], new]
        place = end
    return "".join([*parts, text[place:]])

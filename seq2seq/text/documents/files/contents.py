"""The texts of a file as documents, and the way back to a file.

Markup inside the sentences of a file is replaced by numbered tags, such as `<12>`.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seq2seq.text.documents.document import Document, escape_text
from seq2seq.text.documents.inline import pair_tags
from seq2seq.text.documents.markup import Reader, Token, check_count

NUMBER = re.compile(r"<(\d+)>")
Change = tuple[int, int, str]  # start and end of a span of a text, and its new text


@dataclass(frozen=True)
class Contents:
    """The texts of a file that are to be translated.

    Attributes:
        documents: texts in order.
        write: function that makes the new file from a translation of each text. It raises
            DataError if the result would not be readable.
        problems: messages about texts that `write` had to leave untranslated, or damaged.
    """

    documents: list[Document]
    write: Callable[[Sequence[str]], bytes]
    problems: list[str] = field(default_factory=list)


def join_contents(parts: Sequence[Contents], join: Callable[[list[bytes]], bytes]) -> Contents:
    """The contents of several texts, which are written one after the other and then joined."""

    def write(translated: Sequence[str]) -> bytes:
        texts = iter(translated)
        return join([each.write([next(texts) for _ in each.documents]) for each in parts])

    documents = [document for each in parts for document in each.documents]
    return Contents(documents, write, [problem for each in parts for problem in each.problems])


@dataclass(frozen=True)
class Cutter:
    """Cuts the texts of a file into sentences.

    Attributes:
        language, whole: arguments of `Document.of`.
        fuzzy: whether to mark translated messages in a .po file as `fuzzy`, so that a person
            checks them.
    """

    language: str | None
    whole: bool = True
    fuzzy: bool = False

    def __call__(self, text: str, read: Reader | None = None) -> Document:
        return Document.of(text, self.language, read=read, whole=self.whole)


class NumberedText:
    """A text with numbered tags, built by adding its parts in order.

    Attributes:
        encode: function that encodes a text for the file.
        tags: tags by number, with their places in the file if a format needs these.
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
        """The texts and tags of a translated text: each tag once, and all pairs properly nested.

        The tags of a pair around several sentences may move independently, so the number of a
        closing tag is ignored: it closes the innermost open pair.
        """
        partners = pair_tags(self.tags)
        around: list[int] = []  # numbers of the opening tags not closed yet
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
    """Replace spans of a text. The changes must be in order and not overlap."""
    parts, place = [], 0
    for begin, end, new in changes:
        parts += [text[place:begin], new]
        place = end
    return "".join([*parts, text[place:]])

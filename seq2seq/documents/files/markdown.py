"""Markdown: the text of its blocks; what is inside sentences are tags."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.files.numbered import Kind, NumberedText, Tag
from seq2seq.documents.html_markup import VOID

if TYPE_CHECKING:
    from markdown_it.token import Token as MarkdownToken

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
FRONT_MATTER = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\r?\n(?s:.*?)\n\1[ \t]*(?:\r?\n|\Z)")
# The end of a link or an image: its address, or the name of a definition.
LINK_END = re.compile(r"\](?:\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\)|\[[^\[\]]*+\])?", re.S)
HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
FOOTNOTE = re.compile(r"(\[\^[^\[\]\s]+\]:?)")


class TextBlock(NamedTuple):
    """A paragraph, a heading or a cell.

    Attributes:
        begin, end: its place in the file.
        text: of its lines, without what stands before them, such as `> `.
        escapes: characters of the text that have a meaning, as they are written without it.
    """

    begin: int
    end: int
    text: NumberedText
    escapes: dict[int, str]


def open_markdown(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if it is no text."""
    text = decode_file(data)
    blocks = list(find_blocks(text))
    return Contents([block.text.cut(cut) for block in blocks], partial(write_blocks, text, blocks))


def find_blocks(text: str) -> Iterator[TextBlock]:
    """The blocks of a text that are translated, in their order."""
    from markdown_it import MarkdownIt  # most files are of other formats

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
    front = FRONT_MATTER.match(text)
    head = front[0] if front else text[: text.startswith("\ufeff")]
    lines = [match[0] for match in LINE.finditer(text)]
    starts = [0, *accumulate(map(len, lines))]
    done = 0  # all before it is in blocks
    for token in parser.parse("\n" * head.count("\n") + text[len(head) :]):
        if token.type != "inline" or not token.map or not token.content.strip():
            continue
        places = []  # of the lines of the block: in the file, and in its line
        for number, part in enumerate(token.content.split("\n"), start=token.map[0]):
            line, part = lines[number].rstrip(), part.rstrip()
            place = max(done - starts[number], 0)
            is_end = line.endswith(part) and len(line) - len(part) >= place
            column = len(line) - len(part) if is_end else line.find(part, place)
            places.append((starts[number] + column, column))
        if min(column for _, column in places) >= 0:
            done = places[-1][0] + len(part)
            prefixes = [text[place - column : place] for place, column in places]
            yield TextBlock(places[0][0], done, *read_block(token, prefixes))


def read_block(
    token: "MarkdownToken", prefixes: Sequence[str]
) -> tuple[NumberedText, dict[int, str]]:
    """The text of a block with tags for what is inside sentences, and its escapes.

    Args:
        prefixes: of its lines.
    """
    reader = InlineReader(token.content, prefixes)
    try:
        reader.read(token.children or [])
    except ValueError:  # it does not stand in the file as it was read: its tags are not known
        reader = InlineReader(token.content, prefixes)
        reader.text.add_text(token.content)
    return reader.text, reader.escapes


class InlineReader:
    """Finds what the parser found inside a block, which does not say where it stands."""

    def __init__(self, content: str, prefixes: Sequence[str]):
        self.text, self.escapes = NumberedText(), dict[int, str]()
        self._content, self._prefixes = content, prefixes
        self._place, self._line = 0, 0
        self._labels: list[int] = []  # where the texts of open links begin

    def read(self, tokens: "Sequence[MarkdownToken]") -> None:
        """Add tokens. Raises: ValueError for one that is not in the block."""
        following = iter(tokens)
        for token in following:
            if token.info == "auto":  # <http://a.b>, a link around its own address
                self._take("<")
                address = self._take_up_to(">")
                self.text.add_tag(Tag("copy", f"<{address}"), address[:-1])
                next(following), next(following)
            elif token.type == "text":
                self._take(token.content)
                for k, part in enumerate(FOOTNOTE.split(token.content)):
                    self.text.add_tag(Tag("alone", part)) if k % 2 else self.text.add_text(part)
            elif token.type == "text_special":
                self._take(token.markup)
                self.text.add_text(token.content)
                if len(token.content) == 1 and not token.content.isalnum():
                    self.escapes[ord(token.content)] = token.markup
            elif token.type == "softbreak":
                self._take("\n")
                self.text.add_text("\n")
                self._line += 1
            else:
                self._add(token)
        self.text.add_text(self._content[self._place :])

    def _add(self, token: "MarkdownToken") -> None:
        """Add a token as a tag."""
        name, _, side = token.type.rpartition("_")
        if token.type == "hardbreak":
            self._line += 1
            markup = self._take_up_to("\n")
            self.text.add_tag(Tag("alone", markup + self._prefixes[self._line]), " ")
        elif token.type == "code_inline":
            self._take(token.markup)
            code = self._take_up_to(f"(?<!`){token.markup}(?!`)")
            copied = " ".join(token.content.split())
            self.text.add_tag(Tag("copy", token.markup + code), copied)
        elif token.type == "html_inline":
            self._take(token.content)
            match = HTML_TAG.match(token.content)
            tag = match[2].lower() if match else ""
            kind: Kind = "alone" if not tag or tag in VOID else "open"
            kind = "close" if match and match[1] else kind
            self.text.add_tag(Tag(kind, token.content, tag), " " if tag == "br" else "")
        elif token.type == "image":
            self._take(f"![{token.content}")
            self.text.add_tag(Tag("alone", f"![{token.content}{self._take_link_end('')}"))
        elif token.type == "link_open":
            self._take("[")
            self.text.add_tag(Tag("open", "[", name))
            self._labels.append(self._place)
        elif token.type == "link_close":
            label = self._content[self._labels.pop() : self._place]
            self.text.add_tag(Tag("close", self._take_link_end(label), name))
        else:
            self._take(token.markup)
            self.text.add_tag(Tag("open" if side == "open" else "close", token.markup, name))

    def _take(self, markup: str) -> None:
        """Go on after some characters, before which there is at most white space."""
        place = self._content.find(markup, self._place)
        gap = self._content[self._place : max(place, self._place)]
        if place < 0 or gap.strip():
            raise ValueError(markup)
        self.text.add_text(gap)
        self._place = place + len(markup)

    def _take_up_to(self, pattern: str) -> str:
        """The characters to the end of the next match, and go on after them."""
        match = re.compile(pattern).search(self._content, self._place)
        if not match:
            raise ValueError(pattern)
        taken, self._place = self._content[self._place : match.end()], match.end()
        return taken

    def _take_link_end(self, label: str) -> str:
        """The end of a link or an image, which names its definition even if its text changes."""
        match = LINK_END.match(self._content, self._place)
        if not match:
            raise ValueError(label)
        self._place = match.end()
        return f"][{label}]" if label and match[0] in ("]", "][]") else match[0]


def write_blocks(text: str, blocks: Sequence[TextBlock], translated: Sequence[str]) -> bytes:
    """The file with its blocks as they are translated; their lines are one."""
    changes = []
    for block, new in zip(blocks, translated, strict=True):
        if new != str(block.text):
            parts = block.text.parts(new)
            written = (
                " ".join(part.split("\n")).translate(block.escapes)
                if isinstance(part, str)
                else part.markup
                for part in parts
            )
            changes.append((block.begin, block.end, "".join(written)))
    return splice(text, changes).encode()

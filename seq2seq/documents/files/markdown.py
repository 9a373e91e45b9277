"""Markdown: the text of its blocks; what is inside sentences are tags."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.files.markdown_parser import MAX_INLINE_DEPTH, TAB, make_parser
from seq2seq.documents.files.numbered import Kind, NumberedText, Tag
from seq2seq.documents.html_markup import VOID
from seq2seq.documents.limits import check_count
from seq2seq.errors import DataError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token as MarkdownToken

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
# Front matter in TOML; the plugin of the parser knows YAML.
TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n(?s:.*?)\n\+\+\+[ \t]*(?:\r?\n|\Z)")
RULE = re.compile(r"---[ \t]*(?:\r\n?|\n)[ \t]*[\r\n]")  # no front matter, but a thematic break
# The end of a link or an image: its address, or the name of a definition.
LINK_END = re.compile(r"\](?:\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\)|\[[^\[\]]*+\])?", re.S)
WIKI_LINK = re.compile(r"\[\[(?:[^|]*\|)?([^|]*)\]\]")
HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
HASHES = re.compile(r"[^#]*#+")
QUOTED = re.compile(r"\"([^\"]+)\"\s*\Z")
MAX_NOTES = 100  # inside a block: where they are in one another, parsing takes quadratic time
# Blocks inside a line, which neither begin nor end one.
CELLS, TITLES = ("th_open", "td_open"), ("directive_open", "admonition_title_open")
WORDS = ("text", "text_special", "softbreak")  # tokens that are no markup
MARKS = {ord(mark): f"\\{mark}" for mark in "\\`*_[]<>#~$|"}
FIRST = re.compile(r"\A(\d{0,9})([-+=:!?.)])")  # may make a block of another kind


class TextBlock(NamedTuple):
    """A paragraph, a heading, a cell or a title.

    Attributes:
        begin, end: its place in the file.
        line: its first, counted from 1.
        kind: the type of the token before it.
        is_alone: does the text begin a line, so that it could begin a block of another kind?
        text: of its lines, without what stands before them, such as `> `.
        escapes: characters of the text that have a meaning, as they are written without it.
        markup: how often each kind of markup is inside it.
    """

    begin: int
    end: int
    line: int
    kind: str
    is_alone: bool
    text: NumberedText
    escapes: Mapping[int, str]
    markup: Counter[tuple[str, ...]]


def open_markdown(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if it is not text, or too much to parse."""
    try:
        page = Page(decode_file(data))
    except RecursionError:
        raise DataError("its marks are too deep in one another") from None
    documents = [block.text.cut(cut) for block in page.blocks]
    return Contents(documents, page.write, page.problems)


class Page:
    """The blocks of a file that are translated, in their order."""

    def __init__(self, text: str):
        self.blocks: list[TextBlock] = []
        self.problems: list[str] = []
        self._text = text
        check_count(text.count("\n") + text.count("\r") - text.count("\r\n"), "lines")
        parsed = text.replace("\0", "\ufffd").replace("\ufeff", " ", text.startswith("\ufeff"))
        self._lines = [match[0] for match in LINE.finditer(parsed)]
        self._starts = [0, *accumulate(map(len, self._lines))]
        self._done = 0  # all before it is in blocks
        self._env: dict[str, Any] = {}
        parser = make_parser()
        if text.startswith("\ufeff"):
            parsed = parsed[1:]
        if front := TOML.match(parsed):
            parsed = "\n" * front[0].count("\n") + parsed[front.end() :]
        if RULE.match(parsed):
            parser.disable("front_matter")
        before = "", ""
        count = 0
        for token in parser.parse(TAB.sub(r"\1!!!", parsed), self._env):
            if token.type == "inline" and token.content.strip():
                count += self._add(parser, token, *before)
                check_count(count, "tags")
            before = token.type, token.markup
        self._unread = len(self.problems)

    def _add(self, parser: "MarkdownIt", token: "MarkdownToken", kind: str, markup: str) -> int:
        """Add a block, or name it where it is not in the file as it was parsed.

        Args:
            kind, markup: of the token before it.

        Returns: the number of tags in it.
        """
        assert token.map is not None
        if kind == "admonition_title_open":  # in quotes, or the name of its kind
            title = QUOTED.search(self._lines[token.map[0]])
            if not title:
                return 0
            token.content = title[1]
        if token.content.count("^[") > MAX_NOTES:
            raise DataError(f"line {token.map[0] + 1} has more than {MAX_NOTES} notes inside it")
        tags = parse_inline(parser, token.content, self._env)
        try:
            places = self._locate(token, kind, markup)
            prefixes = [self._text[place - column : place] for place, column in places]
            reader = InlineReader(token.content, prefixes, self._env)
            reader.read(tags)
        except ValueError:
            self.problems.append(
                f"line {token.map[0] + 1} is not translated: its markup is unusual"
            )
            return len(tags)
        is_alone = kind not in (*CELLS, *TITLES) and not markup.startswith("#")
        shape = (token.map[0] + 1, kind, is_alone, reader.text, reader.escapes, count_markup(tags))
        self.blocks.append(TextBlock(places[0][0], self._done, *shape))
        return len(tags)

    def _locate(self, token: "MarkdownToken", kind: str, markup: str) -> list[tuple[int, int]]:
        """The places of the lines of a block in the file, and in their lines.

        Raises: ValueError if they are not there.
        """
        places = []
        for number, part in enumerate(token.content.split("\n"), start=(token.map or [0])[0]):
            line, part, start = self._lines[number].rstrip(), part.strip(), self._starts[number]
            least = max(self._done - start, 0)
            if kind in CELLS:
                column = line.find(part := part.replace("|", "\\|"), least)
            elif kind in TITLES:
                column = line.rfind(part)
            elif line.endswith(part):
                column = len(line) - len(part)
            else:
                hashes = HASHES.match(line, least) if markup.startswith("#") else None
                column = line.find(part, hashes.end() if hashes else least)
            if column < least:
                raise ValueError(part)
            places.append((start + column, column))
        self._done = places[-1][0] + len(part)
        return places

    def write(self, translated: Sequence[str]) -> bytes:
        """The file with its blocks as they are translated; their lines are one.

        A block whose markup would become another stays as it is, and is named.
        """
        del self.problems[self._unread :]
        parser, changes = make_parser(is_limited=False), []
        for block, new in zip(self.blocks, translated, strict=True):
            if new == str(block.text):
                continue
            for write in (write_plainly, write_carefully):
                written = write(block, new)
                if self._is_same(parser, block, written):
                    written = written.replace("|", "\\|") if block.kind in CELLS else written
                    changes.append((block.begin, block.end, written))
                    break
            else:
                self.problems.append(
                    f"line {block.line} is not translated: its markup would change"
                )
        return splice(self._text, changes).encode()

    def _is_same(self, parser: "MarkdownIt", block: TextBlock, written: str) -> bool:
        """Has a text the markup of a block, and would it begin a block of its kind?"""
        if block.is_alone:
            tokens: list[MarkdownToken] = []
            parser.block.parse(written.split("\n")[0], parser, {}, tokens)
            if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
                return False
        return count_markup(parse_inline(parser, written, self._env)) == block.markup


def write_plainly(block: TextBlock, new: str) -> str:
    """A block as it is translated, with marks in it as they are."""
    text = "".join(
        " ".join(part.split("\n")).translate(block.escapes)
        if isinstance(part, str)
        else part.markup
        for part in block.text.parts(new)
    )
    return text.replace('"', "”") if block.kind in TITLES else text


def write_carefully(block: TextBlock, new: str) -> str:
    """A block as it is translated, with marks that mean nothing, and space around emphasis."""
    text = ""
    for part in block.text.parts(new):
        if isinstance(part, str):
            text += " ".join(part.split("\n")).translate({**MARKS, **block.escapes})
        elif part.name in ("em", "strong"):
            markup = part.markup.replace("_", "*")
            text += f" {markup}" if part.kind == "open" else f"{markup} "
        else:
            text += " " * (text[-1:] == part.markup[0] == "`") + part.markup
    return FIRST.sub(r"\1\\\2", text.strip())


def parse_inline(parser: "MarkdownIt", text: str, env: dict[str, Any]) -> "list[MarkdownToken]":
    """The tokens inside a block."""
    parser.options["maxNesting"], before = MAX_INLINE_DEPTH, parser.options["maxNesting"]
    tokens: list[MarkdownToken] = parser.inline.parse(text, parser, env, [])
    parser.options["maxNesting"] = before
    return tokens


def count_markup(tokens: "Sequence[MarkdownToken]") -> Counter[tuple[str, ...]]:
    """How often each kind of markup is among tokens, with its addresses and what is copied."""
    tags = (token for token in tokens if token.type not in WORDS)
    return Counter((tag.type, tag.content, *map(str, tag.attrs.values())) for tag in tags)


class InlineReader:
    """Finds what the parser found inside a block, which does not say where it is.

    Args:
        content: the text of the block.
        prefixes: what is before its lines, such as `> `.
        env: what the parser keeps of a file, such as notes inside sentences.
    """

    def __init__(self, content: str, prefixes: Sequence[str], env: Mapping[str, Any]):
        self.text, self.escapes = NumberedText(), dict[int, str]()
        self._content, self._prefixes, self._env = content, prefixes, env
        self._place, self._lines, self._counted = 0, 0, 0
        self._labels: list[int] = []  # where the texts of open links begin

    def read(self, tokens: "Sequence[MarkdownToken]") -> None:
        """Add tokens, and the rest of the block. Raises: ValueError for one that is not in it."""
        self._read(tokens)
        self.text.add_text(self._content[self._place :])

    def _read(self, tokens: "Sequence[MarkdownToken]") -> None:
        following = iter(tokens)
        for token in following:
            if token.info == "auto":  # <http://a.b>, a link around its own address
                self._take("<")
                address = self._take_up_to(">")
                self.text.add_tag(Tag("copy", f"<{address}"), address[:-1])
                next(following), next(following)
            elif token.type == "text":
                self._take(token.content)
                self.text.add_text(token.content)
            elif token.type == "text_special":
                self._take(token.markup)
                self.text.add_text(token.content)
                if len(token.content) == 1 and not token.content.isalnum():
                    self.escapes[ord(token.content)] = token.markup
            elif token.type == "softbreak":
                self._take("\n")
                self.text.add_text("\n")
            else:
                self._add(token)

    def _add(self, token: "MarkdownToken") -> None:
        """Add a token as a tag."""
        name, _, side = token.type.rpartition("_")
        if token.type == "hardbreak":
            markup = self._take_up_to("\n")
            self._lines += self._content.count("\n", self._counted, self._place)
            self._counted = self._place
            self.text.add_tag(Tag("alone", markup + self._prefixes[self._lines]), " ")
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
        elif token.type == "verbatim":
            self._take(token.content)
            words = WIKI_LINK.fullmatch(token.content)
            self.text.add_tag(
                Tag("copy" if words else "alone", token.content), words[1] if words else ""
            )
        elif token.type.startswith("math_inline"):
            formula = f"{token.markup}{token.content}{token.markup}"
            self._take(formula)
            self.text.add_tag(Tag("alone", formula))
        elif token.type == "footnote_ref":
            self._add_note(token.meta)
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

    def _add_note(self, note: Mapping[str, Any]) -> None:
        """Add a footnote: its name, or all of it where it is inside the sentence."""
        if "label" in note:
            self._take(f"[^{note['label']}]")
            self.text.add_tag(Tag("alone", f"[^{note['label']}]"))
            return
        self._take("^[")
        self.text.add_tag(Tag("open", "^[", "note"))
        self._read(self._env["footnotes"]["list"][note["id"]]["tokens"])
        self._take("]")
        self.text.add_tag(Tag("close", "]", "note"))

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

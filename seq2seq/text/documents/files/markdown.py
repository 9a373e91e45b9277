"""Markdown files: the text of each block, with the markup inside it as tags."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from markdown_it.token import Token as MarkdownToken

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Contents, Cutter, NumberedText, splice
from seq2seq.text.documents.files.markdown_parser import TAB, MarkdownParser
from seq2seq.text.documents.html_markup import VOID, read_html
from seq2seq.text.documents.markup import Kind, Token, check_count

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
# Front matter in TOML; the plugin of the parser handles only YAML.
TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n(?s:.*?)\n\+\+\+[ \t]*(?:\r?\n|\Z)")
HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
HASHES = re.compile(r"[^#]*#+")
EMPTY_LINK = re.compile(r"(?<!!)\[\](?=[\[(])")  # [][label] or [](address): nothing to click on
QUOTED = re.compile(r"\"([^\"]+)\"\s*\Z")
MAX_NOTES = 100  # inside a block: nested ones take quadratic time to parse
# Blocks that are part of a line and need not begin or end it.
CELLS, TITLES = ("th_open", "td_open"), ("directive_open", "admonition_title_open")
WORDS = ("text", "text_special", "softbreak")  # types of tokens that are not markup
MARKS = {ord(mark): f"\\{mark}" for mark in "\\`*_[]<>#~$|"}
FIRST = re.compile(r"\A(\d{0,9})([-+=:!?.)])")  # could start a block of another kind


class TextBlock(NamedTuple):
    """A paragraph, a heading, a cell or a title.

    Attributes:
        begin, end: place in the file.
        line: number of its first line, from 1.
        kind: type of the token before it.
        is_alone: whether the text begins a line, so that a translation could by mistake begin a
            block of another kind.
        text: text of its lines, without prefixes such as `> `.
        escapes: special characters that are escaped in the text, with their escaped forms.
        markup: count of each kind of markup inside it.
    """

    begin: int
    end: int
    line: int
    kind: str
    is_alone: bool
    text: NumberedText
    escapes: Mapping[int, str]
    markup: Counter[tuple[str, ...]]


def open_page(text: str, cut: Cutter) -> Contents:
    """The contents of a Markdown file. Raises: DataError if there is too much to parse."""
    try:
        page = Page(text)
    except RecursionError:
        raise DataError("its markup is nested too deeply") from None
    documents = [block.text.cut(cut) for block in page.blocks]
    return Contents(documents, page.write, page.problems)


class Page:
    """The blocks of a file that are to be translated, in order."""

    def __init__(self, text: str):
        self.blocks: list[TextBlock] = []
        self.problems: list[str] = []
        self._text = text
        check_count(text.count("\n") + text.count("\r") - text.count("\r\n"), "lines")
        parsed = text.replace("\0", "\ufffd").replace("\ufeff", " ", text.startswith("\ufeff"))
        self._lines = [match[0] for match in LINE.finditer(parsed)]
        self._starts = [0, *accumulate(map(len, self._lines))]
        self._done = 0  # end of the last block
        self._parser = MarkdownParser()
        if text.startswith("\ufeff"):
            parsed = parsed[1:]
        if front := TOML.match(parsed):
            parsed = "\n" * front[0].count("\n") + parsed[front.end() :]
        before, count = ("", ""), 0
        for token in self._parser.parse(TAB.sub(r"\1!!!", parsed)):
            if token.type == "inline" and token.content.strip():
                count += self._add(token, *before)
                check_count(count, "tags")
            before = token.type, token.markup
        self._unread = len(self.problems)

    def _add(self, token: MarkdownToken, kind: str, markup: str) -> int:
        """Add a block, or report a problem if its parsed text cannot be found in the file.

        Args:
            kind, markup: type and markup of the token before it.

        Returns: the number of tokens in the block.
        """
        assert token.map is not None
        line = token.map[0] + 1
        if kind == "admonition_title_open":  # in quotes; without them it names only the kind
            title = QUOTED.search(self._lines[token.map[0]])
            if not title:
                return 0
            token.content = title[1]
        if token.content.count("^[") > MAX_NOTES:
            raise DataError(f"line {line} has more than {MAX_NOTES} inline notes")
        tags = self._parser.parse_inline(token.content)
        try:
            places = self._locate(token, kind, markup)
            prefixes = [self._text[place - column : place] for place, column in places]
            reader = InlineReader(self._parser, prefixes)
            reader.read(tags)
        except ValueError:
            self.problems.append(f"line {line} is not translated: its markup is unusual")
            return len(tags)
        is_alone = kind not in (*CELLS, *TITLES) and not markup.startswith("#")
        shape = (line, kind, is_alone, reader.text, reader.escapes, count_markup(tags))
        self.blocks.append(TextBlock(places[0][0], self._done, *shape))
        return len(tags)

    def _locate(self, token: MarkdownToken, kind: str, markup: str) -> list[tuple[int, int]]:
        """Find the lines of a block in the file.

        Returns: for each line, the place of its text in the file, and the column.

        Raises: ValueError if the text of a line cannot be found.
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
        """The file with its blocks translated, each as a single line.

        A block whose markup would change is left untranslated and reported, and a link that has
        lost its text is reported.
        """
        del self.problems[self._unread :]
        self._parser.deadline, changes = float("inf"), []
        for block, new in zip(self.blocks, translated, strict=True):
            if new == str(block.text):
                continue
            for write in (write_plainly, write_carefully):
                written = write(block, new)
                if self._is_same(block, written):
                    written = written.replace("|", "\\|") if block.kind in CELLS else written
                    changes.append((block.begin, block.end, written))
                    before = EMPTY_LINK.findall(self._text, block.begin, block.end)
                    if len(EMPTY_LINK.findall(written)) > len(before):
                        self.problems.append(f"line {block.line} has a link without text now")
                    break
            else:
                self.problems.append(
                    f"line {block.line} is not translated: its markup would change"
                )
        return splice(self._text, changes).encode()

    def _is_same(self, block: TextBlock, written: str) -> bool:
        """True if the new text has the same markup as the block and begins no other block."""
        if block.is_alone:
            tokens = self._parser.parse_blocks(written.split("\n")[0], {})
            if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
                return False
        return count_markup(self._parser.parse_inline(written)) == block.markup


def write_plainly(block: TextBlock, new: str) -> str:
    """The translation of a block, with its markup unchanged."""
    text = "".join(
        part.markup or part.text.translate(block.escapes) for part in block.text.parts(new)
    )
    return text.replace('"', "”") if block.kind in TITLES else text


def write_carefully(block: TextBlock, new: str) -> str:
    """The translation of a block, with all special characters escaped and emphasis set apart."""
    text = ""
    for part in block.text.parts(new):
        if part.kind == "text":
            text += part.text.translate({**MARKS, **block.escapes})
        elif part.name in ("em", "strong"):
            markup = part.markup.replace("_", "*")
            text += f" {markup}" if part.kind == "open" else f"{markup} "
        else:
            text += " " * (text[-1:] == part.markup[0] == "`") + part.markup
    return FIRST.sub(r"\1\\\2", text.strip())


def count_markup(tokens: Sequence[MarkdownToken]) -> Counter[tuple[str, ...]]:
    """Count the markup among tokens by kind, address and copied content."""
    tags = (token for token in tokens if token.type not in WORDS)
    return Counter((tag.type, tag.content, *map(str, tag.attrs.values())) for tag in tags)


def join_copied(tokens: Sequence[MarkdownToken]) -> list[MarkdownToken]:
    """The tokens of a block, with each untranslated HTML element joined into one token."""
    joined: list[MarkdownToken] = []
    begin, name, depth = 0, "", 0  # of the untranslated element
    for token in tokens:
        joined.append(token)
        match = HTML_TAG.match(token.content) if token.type == "html_inline" else None
        if match and not name:
            html = read_html(token.content)[-1]
            if html.kind == "alone" and html.name not in VOID:  # its content follows
                begin, name = len(joined) - 1, html.name
        if match and match[2].lower() == name:
            depth += -1 if match[1] else 1
            if not depth:
                source = "".join(each.meta["source"] for each in joined[begin:])
                joined[begin:] = [joined[begin].copy(info="copied", meta={"source": source})]
                name = ""
    return joined


class InlineReader:
    """Reads the content of a block: its text with tags, and its escaped characters.

    Args:
        prefixes: text before each line of the block, such as `> `.
    """

    def __init__(self, parser: MarkdownParser, prefixes: Sequence[str]):
        self.text, self.escapes = NumberedText(), {ord("\n"): " "}
        self._parser, self._prefixes = parser, prefixes
        self._line, self._spaces, self._label = 0, "", list[str]()

    def read(self, tokens: Sequence[MarkdownToken]) -> None:
        """Add tokens. Raises: ValueError if the parsed text differs from its source."""
        following = iter(join_copied(tokens))
        for token in following:
            source: str = token.meta["source"]
            self._line += source.count("\n")
            if token.type == "text":
                self._spaces = source.removeprefix(token.content)
                if token.content and self._spaces.strip():
                    raise ValueError(source)
                self.text.add_text(token.content)
            elif token.type == "text_special":
                self.text.add_text(token.content)
                if len(token.content) == 1 and not token.content.isalnum():
                    self.escapes[ord(token.content)] = source
            elif token.type == "softbreak":
                self.text.add_text("\n")
            elif token.info == "auto":  # <http://a.b>: the address is also the text
                source += next(following).meta["source"] + next(following).meta["source"]
                self.text.add_tag(Token("copy", text=source[1:-1], markup=source))
            elif token.info == "copied":
                source = source.replace("\n", " ")
                [html] = read_html(source)
                self.text.add_tag(html._replace(name="", markup=source))
            elif token.type == "footnote_ref" and "label" not in token.meta:
                self.text.add_tag(Token("open", name="note", markup="^["))
                note = self._parser.env["footnotes"]["list"][token.meta["id"]]["content"]
                self.read(self._parser.parse_inline(note))
                self.text.add_tag(Token("close", name="note", markup="]"))
            else:
                self._add(token, source)
            self._label.append(source)

    def _add(self, token: MarkdownToken, source: str) -> None:
        """Add a token as a tag."""
        kind: Kind = "alone"
        name, _, side = token.type.rpartition("_")
        text, markup = "", source
        if token.type == "hardbreak":
            line_end = source[: source.index("\n") + 1]
            text, markup = " ", self._spaces + line_end + self._prefixes[self._line]
        elif token.type == "code_inline":
            kind, text = "copy", " ".join(token.content.split())
        elif token.type == "html_inline":
            match = HTML_TAG.match(source)
            name = match[2].lower() if match else ""
            text = " " if name == "br" else ""
            if match and (match[1] or name not in VOID):
                kind = "close" if match[1] else "open"
        elif token.nesting:
            kind = "open" if side == "open" else "close"
            markup = token.markup or source
            # A reference keeps the label of its definition even if its text changes.
            if token.type == "link_close" and source in ("]", "][]"):
                markup = f"][{''.join(self._label[1:])}]"
            self._label = [] if token.type == "link_open" else self._label
        self.text.add_tag(Token(kind, name=name, text=text, markup=markup))

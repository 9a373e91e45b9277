"""A Markdown parser with common extensions that also reports positions inside blocks."""

import re
from bisect import bisect_left
from itertools import pairwise
from time import thread_time
from types import SimpleNamespace
from typing import Any, Literal

from markdown_it import MarkdownIt, helpers
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as MarkdownToken
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from seq2seq.base.errors import DataError
from seq2seq.text.documents.markup import check_count

MAX_DEPTH = 60  # of nested blocks
MAX_INLINE_DEPTH = 20  # of nested links; deeper ones are parsed as text
SECONDS = 8.0  # of processor time; some texts take quadratic time
TEMPLATE = r"\{\{[^{}]*+\}\}|\{%[^{}]*+(?<=%)\}"
# Templates whose content, up to their end tags, is code.
MARK = r"\{(?:\{[<%]|%)-?\s*+"
CODE = rf"{MARK}(?P<code>highlight|code(?:-?block)?+|mermaid|math)(?![\w-])[^{{}}]*+\}}"
CODE_END = rf"{MARK}(?:/|end)\s*+(?P=code)\b[^{{}}]*+\}}++"
CODE_BLOCK = re.compile(rf"{CODE}(?s:.)*?{CODE_END}")
# A part of a comment of MDX without marks of comments. A comment has few marks that begin another,
# so that each of many comments that never end is not searched to the end of the text.
COMMENT = r"(?:[^*{]|\*(?!/\})|\{(?!/\*))*+"
# Copied inside a line: templates, comments, attributes, wiki links, kinds of callouts, emoji, keys
# and exponents.
VERBATIM = re.compile(
    rf"{CODE_BLOCK.pattern}|{TEMPLATE}|\{{/\*(?:{COMMENT}\{{/\*){{0,9}}{COMMENT}\*/\}}|\{{\s*+(?:[#.:]|\w+=)[^{{}}]*+\}}"
    r"|\[\[[^\[\]\n]++\]\](?![(\[])|\[![\w-]++\][+-]?(?![(\[])|(?<![\w:]):[a-zA-Z+-][\w+-]*+:(?![\w:])"
    r"|(?<![\w+])\+\+\w[\w-]*+(?:\+\w[\w-]*+)*+\+\+(?!\+)|(?<=[^\W_])(?P<raised>[~^])[\w+-]{1,20}+(?P=raised)(?![~^])"
)
# Marks around words that are not part of CommonMark.
PAIR = re.compile(r"(==|\^\^)(?![\s=^])((?:(?!\1)[^\n])++)(?<!\s)\1")
# A link address that contains templates, with or without spaces.
ADDRESS = re.compile(rf"[^\s(){{}}<>]*+(?:(?:{TEMPLATE})(?:[^(){{}}<>\"'\n]*[^(){{}}<>\"'\s])?)++")
# A whole line without text: the fence of a container, a kind of callout, templates, attributes,
# abbreviations, imports and exports.
DIRECTIVE = re.compile(
    r":{3,}[ \t]*(?:\{[^{}]*+\}|[\w-]++)?|/{3,}[ \t]*[\w-]*+(?:[ \t]*\||[ \t]*\Z)"
    r"|\[![\w-]++\][+-]?(?![(\[])|\[TOC\]\Z|\*\[[^\[\]]++\]:.*+\Z"
    r"|import\s*\{[^}]*+\Z|import\s+(?:[\w*{][^'\"]*\sfrom\s+)?(?P<q>['\"])[^'\"]*(?P=q);?\s*\Z"
    r"|export\s+(?:(?:default|const|let|var|async|function|class)\s.*[=({;].*|default\s+[A-Z]\w*"
    r"|[{*].*)\Z"
    r"|(?:(?:\{\{[<%][^{}]*+\}\}|\{[%:][^{}]*+\})[ \t]*+)++\Z"
)
# The title that may follow a directive.
TITLE = re.compile(
    r"[ \t]*+(?:\"([^\"]*)\"|\[([^\[\]]*)\]|([^\"\[{=|]*[^\"\[{=|\s:]))"
    r"[ \t:]*+(?:\{[^{}]*+\}[ \t]*+)?\Z"
)
FILE = re.compile(r"\S+[./]\S+")
RULE = re.compile(r"---[ \t]*\n[ \t]*\n")  # a thematic break, not front matter
# Content tabs have the syntax of admonitions, but other marks.
TAB = re.compile(r"^([ \t>]*)===(?=[!+]?[ \t]+\")", re.M)


class MarkdownParser:
    """Parses a text into blocks, and then the content of each block.

    Raises DataError for too many or too deeply nested blocks, and past the deadline.

    Attributes:
        env: definitions in the text, such as link addresses and footnotes.
        deadline: processor time of the thread at which parsing is given up.
    """

    def __init__(self) -> None:
        self.env: dict[str, Any] = {}
        self.deadline = thread_time() + SECONDS
        markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        markdown.use(front_matter_plugin).use(admon_plugin).use(deflist_plugin)
        markdown.use(footnote_plugin, move_to_end=False, always_match_refs=True)
        markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
        alternatives = ["paragraph", "reference", "blockquote", "list"]
        markdown.block.ruler.before("table", "directive", read_directive, {"alt": alternatives})
        markdown.block.ruler.before("front_matter", "limits", self._check)
        markdown.inline.ruler.after("text", "marks", read_marks)
        markdown.inline.ruler.before("text", "limits", self._check)
        markdown.inline.ruler2.disable("fragments_join")
        rules: Any = SimpleNamespace(**{**vars(helpers), "parseLinkDestination": read_address})
        markdown.helpers = rules
        self._markdown = markdown

    def parse(self, text: str) -> list[MarkdownToken]:
        """The blocks of the text, without parsing their content."""
        text = re.sub(r"\r\n?", "\n", text)
        if RULE.match(text):
            self._markdown.disable("front_matter")
        return self.parse_blocks(text, self.env)

    def parse_blocks(self, text: str, env: dict[str, Any]) -> list[MarkdownToken]:
        """The blocks of any text, with definitions stored in `env`."""
        tokens: list[MarkdownToken] = []
        self._markdown.options["maxNesting"] = 2 * MAX_DEPTH
        self._markdown.block.parse(text, self._markdown, env, tokens)
        return tokens

    def parse_inline(self, text: str) -> list[MarkdownToken]:
        """The tokens inside a block; `meta["source"]` of each is its source text."""
        tokens: list[MarkdownToken] = []
        self._markdown.options["maxNesting"] = MAX_INLINE_DEPTH
        state = PlacedState(text, self._markdown, self.env, tokens)
        self._markdown.inline.tokenize(state)
        for k, (token, place) in enumerate(zip(tokens, state.places, strict=True)):
            if token.type == "text" and state.places[k + 1 : k + 2] == [place]:
                # All marks in a row were recorded at the start of the row.
                state.places[k + 1] += len(token.content)
            elif token.type == "link_open" and token.info != "auto":
                state.places[k] -= 1  # was recorded after its bracket
        for rule in self._markdown.inline.ruler2.getRules(""):
            rule(state)
        for token, (begin, end) in zip(tokens, pairwise([*state.places, len(text)]), strict=True):
            token.meta["source"] = text[begin:end]
        return tokens

    def _check(self, state: StateBlock | StateInline, *arguments: int) -> bool:
        """A rule that never matches, but raises DataError if there is too much to parse."""
        check_count(len(state.tokens), "blocks and tags")
        if state.level > MAX_DEPTH:
            raise DataError(f"its blocks are nested more than {MAX_DEPTH} levels deep")
        if thread_time() > self.deadline:
            raise DataError(f"parsing it takes more than {SECONDS:g} s: cut it into several files")
        if isinstance(state, PlacedState) and not (arguments[-1] or state.pending):
            state.text_place = state.pos
        return False


class PlacedState(StateInline):
    """Records where each token begins."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.places: list[int] = []
        self.text_place = 0

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> MarkdownToken:
        token = super().push(ttype, tag, nesting)
        self.places.append(self.pos)
        return token

    def pushPending(self) -> MarkdownToken:
        self.places.append(self.text_place)
        return super().pushPending()


def read_directive(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """The rule for DIRECTIVE. Its title becomes a block."""
    begin = state.bMarks[line] + state.tShift[line]
    text = state.src[begin : state.eMarks[line]]
    if state.is_code_block(line):
        return False
    code = CODE_BLOCK.match(state.src, begin, state.eMarks[end - 1])
    if code and code.end() > state.eMarks[line]:
        if not silent:
            state.line = bisect_left(state.eMarks, code.end(), line, end) + 1
        return True
    match = DIRECTIVE.match(text)
    if not match:
        return False
    if not silent:
        state.push("directive_open", "", 1).map = [line, line + 1]
        title = TITLE.match(text, match.end())
        words = (title[1] or title[2] or title[3] or "").strip() if title else ""
        if words and not FILE.fullmatch(words):
            inline = state.push("inline", "", 0)
            inline.content, inline.map = words, [line, line + 1]
        state.push("directive_close", "", -1)
        state.line = line + 1
        is_code = text.startswith(("import", "export"))
        while is_code and state.line < end and not state.isEmpty(state.line):
            state.line += 1
    return True


def read_marks(state: StateInline, silent: bool) -> bool:
    """The rule for VERBATIM and PAIR."""
    verbatim = VERBATIM.match(state.src, state.pos, state.posMax)
    match = verbatim or PAIR.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if verbatim and not silent:
        state.push("verbatim", "", 0).content = match[0]
    elif not silent:
        end = state.posMax
        state.push("pair_open", "", 1).markup = match[1]
        state.pos, state.posMax = match.span(2)
        state.md.inline.tokenize(state)
        state.push("pair_close", "", -1).markup = match[1]
        state.posMax = end
    state.pos = match.end()
    return True


def read_address(text: str, begin: int, end: int) -> Any:
    """Parse the address of a link, which may contain templates."""
    found = helpers.parseLinkDestination(text, begin, end)
    match = ADDRESS.match(text, begin, end)
    if match:
        found.ok, found.pos, found.str = True, match.end(), match[0]
    return found

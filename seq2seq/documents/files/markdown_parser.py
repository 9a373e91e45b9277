"""The parser of Markdown, with what its dialects add to it."""

import re
from collections.abc import Callable
from time import thread_time
from typing import TYPE_CHECKING

from seq2seq.documents.limits import check_count
from seq2seq.errors import DataError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_DEPTH = 60  # of blocks in one another
MAX_INLINE_DEPTH = 20  # of links in one another; the parser takes deeper ones for text
SECONDS = 8.0  # of a processor: some texts take quadratic time
# What is copied inside a line: templates, attributes, links of wikis, kinds of notes, emoji.
VERBATIM = re.compile(
    r"\{\{[^{}]*+\}\}|\{%[^{}]*+(?<=%)\}|\{(?:[#.:]|\w+=)[^{}]*+\}"
    r"|\[\[[^\[\]\n]++\]\](?![(\[])|\[![\w-]++\][+-]?(?![(\[])|(?<![\w:]):[a-zA-Z+-][\w+-]*+:(?![\w:])"
)
# A line of its own that is no text: the edge of a container, a kind of note, templates, attributes.
DIRECTIVE = re.compile(
    r":{3,}[ \t]*(?:\{[^{}]*+\}|[\w-]++)?|/{3,}[ \t]*[\w-]*+(?:[ \t]*\||[ \t]*\Z)"
    r"|\[![\w-]++\][+-]?(?![(\[])|\[TOC\]\Z"
    r"|(?:(?:\{\{[<%][^{}]*+\}\}|\{[%:][^{}]*+\})[ \t]*+)++\Z"
)
# What follows it may be a title for people.
TITLE = re.compile(
    r"[ \t]*(?:\"([^\"]*)\"|\[([^\[\]]*)\]|([^\"\[{=|]*[^\"\[{=|\s:]))"
    r"[ \t:]*(?:\{[^{}]*\})?[ \t]*\Z"
)
FILE = re.compile(r"\S+[./]\S+")
# Tabs of a page are written as admonitions are, with other marks.
TAB = re.compile(r"^([ \t>]*)===(?=[!+]?[ \t]+\")", re.M)


def make_parser(is_limited: bool = True) -> "MarkdownIt":
    """A parser for blocks; `parser.inline` is for what is inside them.

    Args:
        is_limited: does parsing raise a DataError where it takes too long, as it does for too many
            or too deeply nested blocks?
    """
    from markdown_it import MarkdownIt  # most files are of other formats
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": 2 * MAX_DEPTH})
    parser.enable(["table", "strikethrough"])
    parser.use(front_matter_plugin).use(admon_plugin).use(deflist_plugin)
    parser.use(footnote_plugin, move_to_end=False, always_match_refs=True)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    alternatives = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("table", "directive", read_directive, alternatives)
    parser.inline.ruler.after("text", "verbatim", read_verbatim)
    check = check_limits(thread_time() + SECONDS if is_limited else float("inf"))
    parser.block.ruler.before("front_matter", "limits", check)
    parser.inline.ruler.before("text", "limits", check)
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def check_limits(deadline: float) -> Callable[..., bool]:
    """A rule that matches nothing, and raises a DataError where there is too much of something."""

    def check(state: "StateBlock | StateInline", *_: object) -> bool:
        check_count(len(state.tokens), "blocks and tags")
        if state.level > MAX_DEPTH:
            raise DataError(f"its blocks are more than {MAX_DEPTH} levels deep in one another")
        if thread_time() > deadline:
            raise DataError(f"parsing it takes more than {SECONDS:g} s: cut it into several files")
        return False

    return check


def read_directive(state: "StateBlock", line: int, end: int, silent: bool) -> bool:
    """The rule for DIRECTIVE: its title is a block of its own."""
    text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
    match = DIRECTIVE.match(text)
    if not match or state.is_code_block(line):
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
    return True


def read_verbatim(state: "StateInline", silent: bool) -> bool:
    """The rule for VERBATIM."""
    match = VERBATIM.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if not silent:
        state.push("verbatim", "", 0).content = match[0]
    state.pos = match.end()
    return True

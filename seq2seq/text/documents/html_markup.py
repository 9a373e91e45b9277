"""Reads HTML as a sequence of tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from seq2seq.text.documents.markup import Kind, Token, check_count, unescape
from seq2seq.text.documents.placeholders import DIALECTS, ERB

# Elements whose content is not translated. In a sentence, the first are copied with their text, the
# second count as having no text, ...
COPIED = {"code", "kbd", "samp", "var"}
TEXTLESS = {"script", "style", "svg", "math"}
# ... and the others end the sentence.
KEPT = {*COPIED, *TEXTLESS, "pre", "textarea"}
# Elements without a closing tag.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
# Elements that end a sentence, including obsolete ones; all others may stand inside a sentence.
# Browsers also show unknown elements inside a line.
BLOCK_NAMES = """
    address article aside base blockquote body canvas caption center col colgroup dd details
    dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6
    head header hgroup hr html iframe legend li link main menu meta nav noframes noscript object
    ol optgroup option p pre search section select summary table tbody td template textarea
    tfoot th thead title tr ul video audio
"""
BLOCKS = set(BLOCK_NAMES.split())
# Elements that may be entries of a menu or a form, and custom elements such as x-card.
ENTRY = re.compile(r"a|button|label|[a-z]+-.*", re.S)
# Two texts with only tags between them, and the last place where an entry ends and another begins.
# The letters are those of `letter_of`.
NEIGHBOURS = re.compile(r"t(?=(?P<between>[oacOAC]*+)t)[oacOAC]*C[aA]*(?=O)")
WORD_END = re.compile(r"[^\W_][.!?…]*\Z")
MAX_COPIED = 100  # characters of a copied text; a longer one counts as an element without text
PHP = re.compile(r"<\?(?:php|=)(?s:.{2,}?\?>|.{4,}\Z)")
SERVED = re.compile(DIALECTS[ERB])
# Attributes with a text for readers, and any attribute with its value in quotation marks.
DESCRIBING = {"alt", "title", "placeholder", "aria-label"}
ATTRIBUTE = re.compile(r"""\s([^\s=<>"']++)\s*+=\s*+("[^"]*"|'[^']*')""")
COMMENT_END = re.compile(r"--\s*!?>")


def read_html(text: str) -> list[Token]:
    """Split HTML, however malformed, into tokens. What cannot be read as HTML becomes a block.

    Raises: DataError for more than `MAX_ELEMENTS` tags.
    """
    return part_neighbours(text, HTMLReader(text).tokens)


def part_neighbours(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Add an empty block between adjacent entries of a menu or the like that have no white space
    between them: <a>Der Hund</a><a>Das Kind</a>.
    """
    parted: list[Token] = []
    done = 0
    for match in NEIGHBOURS.finditer("".join(map(letter_of, tokens))):
        before, cut, after = tokens[match.start()], match.end(), tokens[match.end("between")]
        end = unescape(text[max(before.begin, before.end - 40) : before.end])[0][-3:]
        start = unescape(text[after.begin : min(after.begin + 40, after.end)])[0][:1]
        if start.isalpha() and WORD_END.search(end):
            place = tokens[cut].begin
            parted += [*tokens[done:cut], Token("block", place, place)]
            done = cut
    return [*parted, *tokens[done:]]


def letter_of(token: Token) -> str:
    """A letter for the kind of a token; the capital one for a tag of an entry."""
    letter = "b" if token.text else token.kind[0]
    return letter.upper() if ENTRY.fullmatch(token.name) else letter


def copy_token(begin: int, end: int, name: str, texts: Sequence[str]) -> Token:
    """The token for an element inside a sentence whose content is not translated.

    Args:
        texts: texts in the element, with references.
    """
    content = " ".join(unescape("".join(texts))[0].split())
    if not content or len(content) > MAX_COPIED or name in TEXTLESS:
        return Token("alone", begin, end, name)
    return Token("copy", begin, end, name, content)


def wants_translation(tag: str, attributes: Sequence[tuple[str, str | None]]) -> bool | None:
    """True if an element is to be translated, False if not; None if it follows its parent."""
    values = dict(attributes)
    said = (values.get("translate") or "yes").lower() if "translate" in values else ""
    if tag in VOID or tag in TEXTLESS:
        return None if tag in VOID else False
    if said == "no" or "notranslate" in (values.get("class") or "").split():
        return False
    return True if said == "yes" else False if tag in KEPT else None


@dataclass
class Region:
    """An open element that states whether its content is translated.

    Attributes:
        depth: number of open elements with this name, including this one.
    """

    tag: str
    is_kept: bool
    depth: int = 0


class HTMLReader(HTMLParser):
    """Records where each token begins; a token ends where the next one begins.

    Args:
        is_xml: whether an element such as <script/> is empty; browsers ignore the slash.

    Attributes:
        tokens: tokens of the text.
        attributes: spans of the values of attributes to translate.
    """

    def __init__(self, text: str, is_xml: bool = False):
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self.attributes: list[tuple[int, int]] = []
        self._is_xml = is_xml
        self._text = text
        self._count = 0  # number of tags and comments
        self._regions: list[Region] = []  # nested, outermost first
        self._copied: list[str] = []  # texts of the element being copied
        # Server-side code becomes a comment, or a text without tags.
        text = PHP.sub(lambda match: f"<!--{' ' * (len(match[0]) - 7)}-->", text)
        text = SERVED.sub(lambda match: "%" * len(match[0]), text)
        # For each comment that never ends, the parser would search the whole rest of the text.
        # Without its dashes, such a comment ends with the next tag, and is still not text.
        ended = max((match.end() for match in COMMENT_END.finditer(text)), default=0)
        text = text[:ended] + text[ended:].replace("<!--", "<!  ")
        # A tag that never ends is not text. The parser would retry it at each character.
        last = text.rfind(">") + 1
        unfinished = re.compile("<[A-Za-z/!?]").search(text, last)
        stop = unfinished.start() if unfinished else len(text)
        # Only the positions of tokens matter, so some characters are replaced by spaces: line
        # breaks, so that columns are positions; "&" and "<" outside of tags, so that no text comes
        # in pieces; and "[" after "<!", since the parser fails on sections unknown to XML.
        self.feed(re.sub(r"[\n&]|(?<=<!)\[|<(?![A-Za-z/!?])", " ", text[:stop]))
        self.close()
        self._end(stop)
        if stop < len(text):
            self.tokens.append(Token("block", stop, len(text)))

    @property
    def _is_kept(self) -> bool:
        """True while the parser is inside untranslated content."""
        return bool(self._regions) and self._regions[-1].is_kept

    def _begin(self, kind: Kind, name: str = "", text: str = "") -> None:
        """Begin a token, unless inside untranslated content."""
        self._count += kind != "text"
        check_count(self._count // 2, "tags")
        if not self._is_kept:
            begin = self.getpos()[1]
            self._end(begin)
            self.tokens.append(Token(kind, begin, begin, name, text))

    def _end(self, place: int) -> None:
        """End the last token at `place`, and join it with the one before if both are texts."""
        if not self.tokens:
            return
        last = self.tokens.pop()._replace(end=place)
        if last.kind == "copy":
            last = copy_token(last.begin, place, last.name, self._copied)
            self._copied.clear()
        if last.kind == "text" and self.tokens and self.tokens[-1].kind == "text":
            last = last._replace(begin=self.tokens.pop().begin)
        self.tokens.append(last)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted = wants_translation(tag, attrs)
        kind: Kind = "copy" if wanted is False else "alone" if tag in VOID else "open"
        kind = "block" if tag in BLOCKS else kind
        if self._is_kept and wanted is True:
            # Kept content with a translated part inside is several tokens, which must not move.
            self.tokens[-1] = self.tokens[-1]._replace(kind="block")
            self._regions.append(Region(tag, is_kept=False))
            kind = "block"
        self._begin(kind, tag, " " if tag == "br" else "")
        if wanted is False and not self._is_kept:
            self._regions.append(Region(tag, is_kept=True))
            self._copied.clear()
        if self._regions:
            self._regions[-1].depth += self._regions[-1].tag == tag
        if not self._is_kept and wants_translation("", attrs) is not False:
            begin = self.getpos()[1]
            end = begin + len(self.get_starttag_text() or "")
            for match in ATTRIBUTE.finditer(self._text, begin, end):
                if match[1].lower() in DESCRIBING:
                    self.attributes.append((match.start(2) + 1, match.end(2) - 1))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self._is_xml and tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self._begin("block" if tag in BLOCKS else "close", tag)
        if self._regions:
            self._regions[-1].depth -= self._regions[-1].tag == tag
            if not self._regions[-1].depth and not self._regions.pop().is_kept:
                self.tokens[-1] = self.tokens[-1]._replace(kind="block")

    def handle_data(self, data: str) -> None:
        if self._is_kept:
            begin = self.getpos()[1]
            self._copied.append(self._text[begin : begin + len(data)])
        is_broken = data[0] == "<" and data != "<"  # an unfinished tag
        self._begin("block" if is_broken else "text")

    def handle_comment(self, data: str) -> None:
        self._begin("alone")

    def handle_decl(self, data: str) -> None:
        self._begin("block")

    handle_pi = unknown_decl = handle_decl

"""The tokens of HTML."""

import re
from html.parser import HTMLParser

from seq2seq.documents.markup import Token, unescape

# Elements whose content is not translated: in a sentence it is copied, or without any text, ...
COPIED = {"code", "kbd", "samp", "var"}
TEXTLESS = {"script", "style", "svg", "math"}
# ... or ends it.
KEPT = {*COPIED, *TEXTLESS, "pre", "textarea"}
# Elements that nothing closes.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
# Elements inside a sentence, also those that old pages have; all other names of HTML end one.
# A browser shows names that HTML does not have inside a line, too.
BLOCKS = set(
    re.findall(
        r"\w+",
        """
        address article aside base blockquote body canvas caption center col colgroup dd details
        dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6
        head header hgroup hr html iframe legend li link main menu meta nav noframes noscript object
        ol optgroup option p pre search section select summary table tbody td template textarea
        tfoot th thead title tr ul video audio
        """,
    )
)
MAX_COPIED = 100  # characters of what is copied; more of it stands in a sentence without any text
COMMENT_END = re.compile(r"--\s*!?>")
TAG = re.compile(r"<[^<>]*+>")


def read_html(text: str) -> list[Token]:
    """The tokens of a document or a part of one, however malformed. What is no HTML is a block."""
    return HTMLReader(text).tokens


def copy_token(markup: str, begin: int, name: str) -> Token:
    """The token of an element inside a sentence whose content is not translated."""
    content = re.sub(r"\s+", " ", unescape(TAG.sub("", markup))[0]).strip()
    if not content or len(content) > MAX_COPIED or name in TEXTLESS:
        return Token("alone", begin, begin + len(markup), name)
    return Token("copy", begin, begin + len(markup), name, content)


class HTMLReader(HTMLParser):
    """Notes where each token begins; it ends where the next one does."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self._text = text
        self._kept = ""  # the outermost element that is not translated
        self._depth = 0  # of elements of this name in it
        # The parser would look for the end of a comment that has none at each that begins. Without
        # its dashes it ends with the next tag, and is no text either.
        ended = max((match.end() for match in COMMENT_END.finditer(text)), default=0)
        text = text[:ended] + text[ended:].replace("<!--", "<!  ")
        # A tag that never ends is no text. The parser would try it again at each of its characters.
        last = text.rfind(">") + 1
        unfinished = re.compile("<[A-Za-z/!?]").search(text, last)
        stop = unfinished.start() if unfinished else len(text)
        # Only places are read: without line ends these are columns, without references no text is
        # in several pieces. The parser fails on a section that is not of XML.
        self.feed(re.sub(r"[\n&]|(?<=<!)\[", " ", text[:stop]))
        self.close()
        if stop < len(text):
            self._kept = ""
            self._begin(Token("block", stop, len(text)))
        self._end(len(text))

    def _begin(self, token: Token) -> None:
        """Begin a token, unless what is not translated goes on."""
        if not self._kept:
            self._end(token.begin)
            self.tokens.append(token)

    def _end(self, place: int) -> None:
        """End the last token; texts that follow one another are one."""
        if not self.tokens:
            return
        last = self.tokens.pop()._replace(end=place)
        if last.kind == "copy":
            last = copy_token(self._text[last.begin : place], last.begin, last.name)
        if last.kind == "text" and self.tokens and self.tokens[-1].kind == "text":
            last = last._replace(begin=self.tokens.pop().begin)
        self.tokens.append(last)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        begin = self.getpos()[1]
        is_kept = tag in KEPT or (("translate", "no") in attrs and tag not in VOID)
        if tag in BLOCKS:
            token = Token("block", begin, begin)
        elif is_kept:
            token = Token("copy", begin, begin, tag)
        elif tag in VOID:
            token = Token("alone", begin, begin, tag, " " if tag == "br" else "")
        else:
            token = Token("open", begin, begin, tag)
        self._begin(token)
        if is_kept and not self._kept:
            self._kept = tag
        self._depth += tag == self._kept

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # as browsers do, to which <script/> is open

    def handle_endtag(self, tag: str) -> None:
        if self._kept:
            self._depth -= tag == self._kept
            if not self._depth:
                self._kept = ""
            return
        begin = self.getpos()[1]
        self._begin(Token("block" if tag in BLOCKS else "close", begin, begin, tag))

    def handle_data(self, data: str) -> None:
        begin = self.getpos()[1]
        is_broken = data[0] == "<" and data != "<"  # a tag that is broken off
        self._begin(Token("block" if is_broken else "text", begin, begin))

    def handle_comment(self, data: str) -> None:
        begin = self.getpos()[1]
        self._begin(Token("alone", begin, begin))

    def handle_decl(self, data: str) -> None:
        begin = self.getpos()[1]
        self._begin(Token("block", begin, begin))

    handle_pi = unknown_decl = handle_decl

"""The texts of an HTML document, and where they stand in it."""

import html
import re
from html.parser import HTMLParser

# Elements whose content is not translated.
KEPT = {"script", "style", "pre", "code", "kbd", "samp", "var", "textarea", "svg", "math"}
# Elements that nothing closes.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
# Python reads no number of more than 4,300 digits.
REFERENCE = re.compile(r"&(?:#\d{1,4300}+(?!\d)|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")
COMMENT_END = re.compile(r"--\s*!?>")


class TextFinder(HTMLParser):
    """Finds the texts between tags.

    Args:
        text: a document or a part of one, however malformed. What is no HTML is no text either.

    Attributes:
        nodes: begin and end of each text.
    """

    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.nodes: list[tuple[int, int]] = []
        self._kept: str | None = None  # the outermost element that is not translated
        self._depth = 0  # of elements of this name in it
        # The parser would look for the end of a comment that has none at each that begins. Without
        # its dashes it ends with the next tag, and is no text either.
        ended = max((match.end() for match in COMMENT_END.finditer(text)), default=0)
        text = text[:ended] + text[ended:].replace("<!--", "<!  ")
        # A tag that never ends is no text. The parser would try it again at each of its characters.
        last = text.rfind(">") + 1
        unfinished = re.compile("<[A-Za-z/!?]").search(text, last)
        # Only places are read: without line ends these are columns, without references no text is
        # in several pieces. The parser fails on a section that is not of XML.
        self.feed(re.sub(r"[\n&]|(?<=<!)\[", " ", text[: unfinished and unfinished.start()]))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._kept is None and (
            tag in KEPT or (("translate", "no") in attrs and tag not in VOID)
        ):
            self._kept = tag
        self._depth += tag == self._kept

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # as browsers do, to which <script/> is open

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == self._kept
        if not self._depth:
            self._kept = None

    def handle_data(self, data: str) -> None:
        if self._kept is not None or (data[0] == "<" and data != "<"):  # a tag that is broken off
            return
        begin = self.getpos()[1]
        end = begin + len(data)
        if self.nodes and self.nodes[-1][1] == begin:
            begin = self.nodes.pop()[0]
        self.nodes.append((begin, end))


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

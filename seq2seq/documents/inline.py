"""Tags inside sentences, which are translated without them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from seq2seq.documents.markup import Token, unescape

MAX_DEPTH = 20  # of elements in one another; deeper tags are put back each for itself
MASK = "\ue000"  # for private use: neither letter nor space
BLANK = re.compile(r"\s*")
MAX_TAGS = 500  # of a paragraph; where there are more, sentences end at all of them


@dataclass(eq=False)
class Element:
    """A pair of tags inside a sentence, or what stands there alone.

    Attributes:
        opening, closing: as they stand in the document. At an end of the sentence, what is between
            them and its text belongs to them.
        start, end: of the characters of the sentence between them; equal for what stands alone.
        text: of what is copied, of which the opening is the whole.
        is_break: does a space of the sentence stand for it?
        children: the elements in it, in their order.
    """

    opening: str
    start: int
    end: int
    closing: str = ""
    text: str = ""
    is_break: bool = False
    children: list["Element"] = field(default_factory=list)


class Run:
    """A text between two ends of sentences, and the tags in it.

    Args:
        document: the whole text with tags.
        tokens: those of the run, none of them a block.
        has_references: are there references to characters?

    Attributes:
        text: without tags and references.
        mask: the same with characters that are no text for what is copied: no sentence ends there.
        begins, ends: places of each character in the document.
    """

    def __init__(self, document: str, tokens: Iterable[Token], has_references: bool):
        self.document = document
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.tags: list[Token] = []
        self.places: list[int] = []  # of each tag, in the text
        texts: list[str] = []
        masks: list[str] = []
        for token in tokens:
            if token.kind == "text":
                part = document[token.begin : token.end]
                plain, begins = unescape(part) if has_references else (part, range(len(part) + 1))
                self.begins += [token.begin + begin for begin in begins[:-1]]
                self.ends += [token.begin + begin for begin in begins[1:]]
            else:
                plain = token.text
                self.tags.append(token)
                self.places.append(len(self.begins))
                self.begins += [token.begin] * len(plain)
                self.ends += [token.end] * len(plain)
            texts.append(plain)
            masks.append(MASK * len(plain) if token.kind == "copy" else plain)
        self.text, self.mask = "".join(texts), "".join(masks)
        self.partners = pair_tags(self.tags)

    def tags_of(self, first: int, last: int, after: int) -> range:
        """The tags of a sentence `text[first:last]`, from `after` on; others stand around it.

        A pair of tags around the whole sentence is not among them, and neither is what stands alone
        before or after it.
        """
        blank = BLANK.match(self.text, last)
        stop = bisect_right(self.places, blank.end() if blank else last)
        inside = [k for k in range(after, stop) if self._is_inside(k, first, last)]
        return range(inside[0], inside[-1] + 1) if inside else range(after, after)

    def count_tags_before(self, place: int) -> int:
        return bisect_left(self.places, place)

    def _is_inside(self, tag: int, first: int, last: int) -> bool:
        place, partner = self.places[tag], self.partners.get(tag)
        if self.tags[tag].kind == "copy":
            return first <= place < last
        return first < place < last or (partner is not None and first < self.places[partner] < last)

    def elements(self, tags: range, first: int, last: int) -> list[Element]:
        """The elements of a sentence in one another, from its tags."""
        starts = normal_places(self.text[first:last])
        roots: list[Element] = []
        around: list[tuple[int, Element]] = []  # open tags that are closed in the sentence
        for k in tags:
            tag, partner = self.tags[k], self.partners.get(k)
            place = starts[min(max(self.places[k], first), last) - first]
            if around and around[-1][0] == partner:
                element = around.pop()[1]
                element.end, element.closing = place, self._markup(k, tags, first, last)
                continue
            element = Element(self._markup(k, tags, first, last), place, place)
            (around[-1][1].children if around else roots).append(element)
            if tag.kind == "open" and partner in tags and len(around) < MAX_DEPTH:
                around.append((k, element))
            elif tag.kind == "copy":
                element.text = tag.text
                element.end = starts[min(self.places[k] + len(tag.text), last) - first]
            beside = self.text[max(0, self.places[k] - 1) : self.places[k] + 2]
            is_lone = sum(map(str.isspace, beside)) == 1
            element.is_break = tag.kind == "alone" and tag.text == " " and is_lone
        return roots

    def _markup(self, tag: int, tags: range, first: int, last: int) -> str:
        """A tag as it stands in the document; before the first character of a sentence, with what
        follows it up to the next tag; after the last, with what precedes it.
        """
        begin, end = self.tags[tag].begin, self.tags[tag].end
        if self.places[tag] < first:
            following = [self.tags[tag + 1].begin] if tag + 1 in tags else []
            end = min([self.begins[first], *following])
        elif self.places[tag] > last:
            before = [self.tags[tag - 1].end] if tag - 1 in tags else []
            begin = max([self.ends[last - 1], *before])
        return self.document[begin:end]

    def span(self, tags: range, first: int, last: int) -> tuple[int, int]:
        """The place of a sentence in the document, with its tags."""
        begin, end = self.begins[first], self.ends[last - 1]
        if tags:
            begin = min(begin, self.tags[tags[0]].begin)
            end = max(end, self.tags[tags[-1]].end)
        return begin, end


def runs_of(
    document: str, tokens: Sequence[Token], *, whole: bool, has_references: bool
) -> Iterator[Run]:
    """The runs of a text with tags.

    Args:
        whole: else there are ends at all tags.
        has_references: as of `Run`.
    """
    for is_block, group in groupby(tokens, lambda token: token.kind == "block"):
        run = [] if is_block else list(group)
        texts = [token for token in run if token.kind == "text"]
        if whole and len(run) - len(texts) <= MAX_TAGS:
            yield Run(document, run, has_references)
        else:
            yield from (Run(document, [token], has_references) for token in texts)


def pair_tags(tags: Sequence[Token]) -> dict[int, int]:
    """Of each tag that opens or closes an element, the other one. Where pairs cross, as in
    <b><i></b></i>, one of them is none.
    """
    partners: dict[int, int] = {}
    open_tags: list[int] = []
    by_name: dict[str, list[int]] = {}
    for k, tag in enumerate(tags):
        if tag.kind == "open":
            open_tags.append(k)
            by_name.setdefault(tag.name, []).append(k)
        elif tag.kind == "close" and by_name.get(tag.name):
            partner = by_name[tag.name][-1]
            while open_tags[-1] >= partner:
                by_name[tags[open_tags.pop()].name].pop()
                if not open_tags:
                    break
            partners[k], partners[partner] = partner, k
    return partners


def normal_places(text: str) -> list[int]:
    """The place of each character of a text in the same text with single spaces; then the end."""
    places, place = [], 0
    for i, character in enumerate(text):
        places.append(place)
        place += not (character.isspace() and text[i + 1 : i + 2].isspace())
    return [*places, place]

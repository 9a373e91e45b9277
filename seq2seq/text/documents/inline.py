"""Tags inside sentences. Sentences are translated without their tags."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, groupby, pairwise
from typing import Literal

from seq2seq.text.documents.markup import Token, unescape
from seq2seq.text.documents.placeholders import hide_messages

MAX_DEPTH = 20  # of nested elements; deeper tags are placed one by one, not in pairs
MASK = "\ufdd0"  # occurs in no text, and is neither a letter nor a space
BLANK = re.compile(r"\s*")
# Limits for a paragraph. Beyond them, sentences end at every tag.
MAX_TAGS, MAX_WORK = 500, 2**20  # number of tags; tags times characters
SOFT_HYPHEN = "\u00ad"  # marks a possible line break in a word; removed
# Scripts without spaces between words, or without a space before what follows a word.
SPACELESS = "\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\ud7ff\uf900-\uffdc\U00020000-\U0003ffff"
WORD = re.compile(rf"[^\W{SPACELESS}]")
# What stands beside a tag; the ends of the text count as a mark.
Side = Literal["space", "word", "mark", "tag"]


@dataclass(eq=False)
class Element:
    """A pair of tags inside a sentence, or a single tag or comment.

    Attributes:
        opening, closing: source text of the tags. A tag before or after the text of the sentence
            includes whatever stands between the tag and that text.
        start, end: span of the characters between the tags; empty for a single tag.
        text: content that is copied; `opening` is then the whole element.
        is_break: whether the tag appears as a space in the sentence.
        before, after: kinds of the neighbours before and after it in the document.
        children: elements inside it, in order.
    """

    opening: str
    start: int
    end: int
    closing: str = ""
    text: str = ""
    is_break: bool = False
    before: Side = "mark"
    after: Side = "mark"
    children: list["Element"] = field(default_factory=list)


class Run:
    """A text between two blocks, and the tags in it.

    Args:
        document: whole text with tags.
        tokens: tokens of the run, without blocks.
        has_references: whether to resolve character references.

    Attributes:
        text: text without tags, references and soft hyphens.
        mask: the same text with each copied character replaced, as are the messages found by
            `hide_messages`, so that no sentence ends inside them.
        begins, ends: start and end of each character in the document; arrays to save memory.
    """

    def __init__(self, document: str, tokens: Iterable[Token], has_references: bool):
        self.document = document
        self.begins, self.ends = array("I"), array("I")
        self.tags: list[Token] = []
        self.places: list[int] = []  # of each tag, in the text
        texts: list[str] = []
        masks: list[str] = []
        for token in tokens:
            if token.kind == "text":
                plain = self._add_text(token, has_references)
            else:
                plain = token.text
                self.tags.append(token)
                self.places.append(len(self.begins))
                self.begins.extend([token.begin] * len(plain))
                self.ends.extend([token.end] * len(plain))
            texts.append(plain)
            masks.append(MASK * len(plain) if token.kind == "copy" else plain)
        self.text = "".join(texts)
        self.mask = hide_messages("".join(masks))
        self.partners = pair_tags(self.tags)

    def _add_text(self, token: Token, has_references: bool) -> str:
        """Add the places of the characters of a text token. Returns: the characters."""
        plain = self.document[token.begin : token.end]
        places: Sequence[int] = range(token.begin, token.end + 1)
        if has_references:
            plain, places = unescape(plain, token.begin)
        is_kept = [character != SOFT_HYPHEN for character in plain]
        self.begins.extend(compress(places, is_kept))
        self.ends.extend(compress(places[1:], is_kept))
        return plain.replace(SOFT_HYPHEN, "")

    def tags_of(self, first: int, last: int, after: int) -> range:
        """The tags inside the sentence `text[first:last]`, starting from tag number `after`.

        Tags around the whole sentence and single tags at its ends are left out.
        """
        blank = BLANK.match(self.text, last)
        stop = bisect_right(self.places, blank.end() if blank else last)
        inside = [k for k in range(after, stop) if self._is_inside(k, first, last)]
        return range(inside[0], inside[-1] + 1) if inside else range(after, after)

    def _is_inside(self, tag: int, first: int, last: int) -> bool:
        place, partner = self.places[tag], self.partners.get(tag)
        if self.tags[tag].kind == "copy":
            return first <= place < last
        return first < place < last or (partner is not None and first < self.places[partner] < last)

    def elements(self, tags: range, first: int, last: int) -> list[Element]:
        """The tags of a sentence as nested elements."""
        if not tags:
            return []
        starts = normal_places(self.text[first:last])
        roots: list[Element] = []
        around: list[tuple[int, Element]] = []  # opened so far, and closed later in the sentence
        for k in tags:
            tag, partner = self.tags[k], self.partners.get(k)
            place = starts[min(max(self.places[k], first), last) - first]
            markup, (before, after) = self._markup(k, tags, first, last), self._sides(k)
            if around and around[-1][0] == partner:
                element = around.pop()[1]
                element.end, element.closing, element.after = place, markup, after
                continue
            element = Element(markup, place, place, before=before, after=after)
            (around[-1][1].children if around else roots).append(element)
            if tag.kind == "open" and partner in tags and len(around) < MAX_DEPTH:
                around.append((k, element))
            elif tag.kind == "copy":
                element.text = tag.text
                element.end = starts[min(self.places[k] + len(tag.text), last) - first]
            is_lone = "space" not in (before, after)
            element.is_break = tag.kind == "alone" and tag.text == " " and is_lone
        return roots

    def _sides(self, tag: int) -> tuple[Side, Side]:
        """The kinds of the neighbours before and after a tag."""
        this, begin = self.tags[tag], self.places[tag]
        end = begin + len(this.text)
        ends = [each.end for each in self.tags[max(0, tag - 1) : tag + 1] if not each.text]
        begins = [each.begin for each in self.tags[tag : tag + 2] if not each.text]
        before = side_of(self.text[max(0, begin - 1) : begin])
        after = side_of(self.text[end : end + 1])
        return "tag" if this.begin in ends else before, "tag" if this.end in begins else after

    def _markup(self, tag: int, tags: range, first: int, last: int) -> str:
        """The source text of a tag. Before the first character of a sentence, it extends to the
        next tag or to that character; after the last character, it extends back likewise.
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
        """The span of a sentence in the document, including its tags."""
        begin, end = self.begins[first], self.ends[last - 1]
        if tags:
            begin = min(begin, self.tags[tags[0]].begin)
            end = max(end, self.tags[tags[-1]].end)
        return begin, end


def runs_of(
    document: str, tokens: Sequence[Token], *, whole: bool, has_references: bool
) -> Iterator[Run]:
    """Divide a text with tags into runs.

    Args:
        whole: whether a run may contain tags; if not, each text between two tags is a run.
        has_references: whether to resolve character references.
    """
    for is_block, group in groupby(tokens, lambda token: token.kind == "block"):
        run = [] if is_block else list(group)
        texts = [token for token in run if token.kind == "text"]
        tags = len(run) - len(texts)
        characters = sum(token.end - token.begin for token in texts)
        if whole and tags <= MAX_TAGS and tags * characters <= MAX_WORK:
            yield Run(document, run, has_references)
        else:
            yield from (Run(document, [token], has_references) for token in texts)


def pair_tags(tags: Sequence[Token]) -> dict[int, int]:
    """Map each opening tag to its closing tag, and the other way round. Of two pairs that overlap,
    as in <b><i></b></i>, only one counts.
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
            while open_tags and open_tags[-1] >= partner:
                by_name[tags[open_tags.pop()].name].pop()
            partners[k], partners[partner] = partner, k
    return partners


def side_of(character: str) -> Side:
    """The kind of a character beside a tag."""
    if WORD.match(character):
        return "word"
    return "space" if character.isspace() else "mark"


def normal_places(text: str) -> Sequence[int]:
    """Map each place in a text, and its end, to a place in the text with single spaces."""
    steps = (not (a.isspace() and b.isspace()) for a, b in pairwise(f"{text}."))
    return array("I", accumulate(steps, initial=0))

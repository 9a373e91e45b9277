"""Put tags back into a translation, around the words that are linked to their source words.

No tag is lost or doubled, whatever the links. An element whose words have no links becomes empty,
and is placed between its neighbours, as are single tags.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import NamedTuple

from seq2seq.text.documents.inline import Element, side_of
from seq2seq.text.documents.placeholders import find_all

Span = tuple[int, int]
START, END = itemgetter(0), itemgetter(1)  # sort keys for spans
Escape = Callable[[str], str]

OTHERS = 0.6  # penalty for a foreign word; one may stand between two words of an element
OPENING = "([{<«„“‚‘¿¡"  # no space comes after these
FAR = 0.5  # by which a word counts less toward placing a single tag per word between them


class WordLinks(NamedTuple):
    """Links between the words of a sentence and of its translation.

    Attributes:
        source, target: words, as spans of characters.
        links: pairs (source word, target word).
        nearest: for each source word, the target word at which an element without links is placed;
            None = unknown.
    """

    source: Sequence[Span]
    target: Sequence[Span]
    links: AbstractSet[tuple[int, int]]
    nearest: Sequence[int | None] = ()


def diagonal_links(source: Sequence[Span], target: Sequence[Span]) -> WordLinks:
    """Links in the order of the words, for sentences whose alignment is unknown."""
    count = len(source)
    links = {(t * count // len(target), t) for t in range(len(target))} if count else set()
    return WordLinks(source, target, links)


def join_placeholders(words: WordLinks, sentence: str, translation: str) -> WordLinks:
    """The links with the words inside each placeholder joined, so that no tag cuts an address."""
    source, of_source = join_spans(words.source, sentence)
    target, of_target = join_spans(words.target, translation)
    links = {(of_source[i], of_target[j]) for i, j in words.links}
    nearest: list[int | None] = [None] * (len(source) if words.nearest else 0)
    for i, j in enumerate(words.nearest):
        nearest[of_source[i]] = None if j is None else of_target[j]
    return WordLinks(source, target, links, nearest)


def join_spans(spans: Sequence[Span], text: str) -> tuple[list[Span], list[int]]:
    """The spans with those inside a placeholder joined, and for each given span its new number."""
    found = [match.span() for match in find_all(text)]
    joined: list[Span] = []
    numbers = []
    for begin, end in spans:
        start, stop = found[max(bisect_right(found, begin, key=START) - 1, 0)] if found else (0, 0)
        if joined and start <= joined[-1][0] and begin < stop:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
        numbers.append(len(joined) - 1)
    return joined, numbers


class Placement:
    """The place of each element in a translation.

    Args:
        sentence, translation: sentence without its tags, and its translation.
        words: words of both, with the links between them.
        escape: function that escapes a text to stand between tags.
    """

    def __init__(self, sentence: str, translation: str, words: WordLinks, escape: Escape):
        self.sentence, self.translation, self.words = sentence, translation, words
        self.escape = escape
        self.spans: dict[Element, Span] = {}  # ranges of target words
        self._copies: dict[Element, Span] = {}  # characters of the copied text in the translation
        self._inside: dict[Element, int] = {}  # places inside unchanged words
        self._linked: list[set[int]] = [set() for _ in words.target]
        for source, target in words.links:
            self._linked[target].add(source)

    def render(self, elements: Sequence[Element]) -> str:
        """The translation with the tags of the sentence in it."""
        self.place(elements, 0, len(self.words.target))
        return "".join(self.parts(elements, 0, len(self.translation)))

    def place(self, elements: Sequence[Element], first: int, last: int) -> None:
        """Place sibling elements among the target words from `first` up to `last`."""
        words = range(len(self.words.target))
        taken = [not first <= word < last for word in words]
        votes = {each: self._votes(each, first, last) for each in elements}
        gains = {each: sum(vote for vote in votes[each] if vote > 0) for each in elements}
        for element in sorted(elements, key=lambda each: (not each.text, -gains[each])):
            found = self._find_copy(element, votes[element], taken)
            begin, end = found or best_span(votes[element], taken)
            if begin < end:
                self.spans[element] = begin, end
                taken[begin:end] = [True] * (end - begin)
        lowest = first
        for element in elements:
            if element not in self.spans and not self._find_word(element, first, last):
                lowest = self._cut(element, lowest, last, taken)
                self.spans[element] = lowest, lowest
            if element.children:
                self.place(element.children, *self.spans[element])

    def _source_words(self, element: Element) -> range:
        """Source words that overlap an element."""
        first = bisect_right(self.words.source, element.start, key=END)
        if element.start == element.end:
            return range(first, first)
        return range(first, max(first, bisect_left(self.words.source, element.end, key=START)))

    def _votes(self, element: Element, first: int, last: int) -> list[float]:
        """The vote of each target word for an element: 1 if all its links are to words inside the
        element, -OTHERS if none are, between these if some are; 0 for a word without links or
        outside of `first` to `last`.
        """
        inside = self._source_words(element)
        votes = [0.0] * len(self.words.target)
        if not inside:
            return votes
        for place, linked in enumerate(self._linked[first:last], first):
            if linked:
                share = sum(word in inside for word in linked) / len(linked)
                votes[place] = share - OTHERS * (1 - share)
        if not any(vote > 0 for vote in votes):
            nearest = self.words.nearest[inside.start : inside.stop]
            votes[first:last] = [float(place in nearest) for place in range(first, last)]
        return votes

    def _find_copy(
        self, element: Element, votes: Sequence[float], taken: Sequence[bool]
    ) -> Span | None:
        """Find the text that an element copies in the translation, as whole words not taken by
        another element. Of several places, take the one with the most votes, then the first.
        """
        text, best, most = self.translation, None, -math.inf
        copied = re.compile(f"(?={re.escape(element.text)})")
        for match in copied.finditer(text) if element.text else ():
            place, stop = match.start(), match.start() + len(element.text)
            begin = bisect_right(self.words.target, place, key=END)
            end = bisect_left(self.words.target, stop, key=START)
            is_whole = not (cuts_word(text, place) or cuts_word(text, stop))
            is_free = is_whole and begin < end and not any(taken[begin:end])
            if is_free and sum(votes[begin:end]) > most:
                best, most = (begin, end), sum(votes[begin:end])
                self._copies[element] = place, stop
        return best

    def _find_word(self, element: Element, first: int, last: int) -> bool:
        """Place an element inside a word that is the same in the translation, as for the 2 in H2O.
        Returns: whether there is such a word.
        """
        number = self._source_words(element).start
        if (element.before, element.after) != ("word", "word") or number == len(self.words.source):
            return False
        start, end = self.words.source[number]
        if not start < element.start == element.end:
            return False
        for place in range(first, last):
            begin, stop = self.words.target[place]
            if self.translation[begin:stop] == self.sentence[start:end]:
                self._inside[element] = begin + element.start - start
                self.spans[element] = place, place
                return True
        return False

    def _cut(self, element: Element, lowest: int, last: int, taken: Sequence[bool]) -> int:
        """Choose the boundary between target words for an empty element, so that the words before
        it, above all the nearest, are linked to the source words before the element.
        """
        boundary = self._source_words(element).start
        best, total, best_total = lowest, 0.0, 0.0
        for cut, linked in enumerate(self._linked[lowest:last], lowest + 1):
            pulls = (
                FAR ** (boundary - 1 - word) if word < boundary else -(FAR ** (word - boundary))
                for word in linked
            )
            total += sum(pulls) / max(1, len(linked))
            is_free = cut == last or not (taken[cut] and taken[cut - 1])
            if total > best_total and is_free:
                best, best_total = cut, total
        return best

    def parts(self, elements: Sequence[Element], begin: int, end: int) -> Iterator[str]:
        """The text of the translation from `begin` to `end`, with the elements inside it."""
        place, tail = begin, ""  # the last character, unless a tag follows it
        for element in sorted(elements, key=self.spans.__getitem__):
            first, last = self.spans[element]
            before = after = False
            if first == last:
                opening, before, after = self._stand(element, begin, place, end)
                closing = opening
            else:
                opening, closing = self._around(element, place, end)
            yield self.escape(self.translation[place:opening])
            tail = self.translation[opening - 1] if place < opening else tail
            yield " " * (before and tail != " ") + element.opening
            if not element.text:
                yield from self.parts(element.children, opening, closing)
            yield element.closing + " " * after
            place, tail = closing, " " * after
            if element.is_break and self.translation[place : place + 1] == " ":
                place += 1
        yield self.escape(self.translation[place:end])

    def _around(self, element: Element, lowest: int, highest: int) -> Span:
        """The span that an element encloses, with spaces inside its tags as in the source."""
        target, (first, last) = self.words.target, self.spans[element]
        text = self.translation
        opening, closing = self._copies.get(element, (target[first][0], target[last - 1][1]))
        inside = self.sentence[element.start : element.end]
        opening -= inside.startswith(" ") and text[:opening].endswith(" ")
        closing += inside.endswith(" ") and text[closing:].startswith(" ")
        opening = min(max(opening, lowest), highest)
        return opening, min(max(closing, opening), highest)

    def _stand(
        self, element: Element, begin: int, lowest: int, highest: int
    ) -> tuple[int, bool, bool]:
        """The place of an empty element, and whether to add spaces before and after it.

        Spaces are as in the document. But where the element had a punctuation mark beside it, it
        may now have a word, as when it moves from the end of a sentence to the middle.
        """
        text, target, (place, _) = self.translation, self.words.target, self.spans[element]
        left = target[place - 1][1] if place else 0
        right = target[place][0] if place < len(target) else len(text)
        left, right = (
            min(max(self._inside.get(element, each), lowest), highest) for each in (left, right)
        )
        if element in self._inside or element.is_break:
            return left, False, False
        if element.start < element.end and not element.text:  # it enclosed words in the source
            return right if element.before == "space" else left, False, False
        previous = text[max(begin, left - 1) : left]
        following = text[right : min(right + 1, highest)]
        has_gap, sides = left < right, (side_of(previous), side_of(following))
        # In languages without spaces, none is added here either.
        is_open = has_gap or sides[0] == "word" or not (previous.isalpha() or previous in OPENING)
        before = element.before == "space" and is_open
        before = bool(previous) and (before or (element.before == "mark" and sides[0] == "word"))
        after = element.after == "space" and has_gap and bool(following)
        after = after or (element.after in ("space", "mark") and sides[1] == "word")
        is_joined = element.after == "word" and element.before != "word"
        if has_gap and not (before or is_joined):
            return left, False, False
        return right, before, after


def cuts_word(text: str, place: int) -> bool:
    """True if a place is inside a word, in a script with spaces between words."""
    return place > 0 and side_of(text[place - 1]) == side_of(text[place : place + 1]) == "word"


def best_span(votes: Sequence[float], taken: Sequence[bool]) -> Span:
    """The run of free words with the largest sum of votes; among equals, the first and shortest.
    Empty if no sum is positive.
    """
    best, best_total = (0, 0), 0.0
    begin, total = 0, 0.0
    for end, (vote, is_taken) in enumerate(zip(votes, taken, strict=True), start=1):
        total += vote
        if is_taken or total <= 0:
            begin, total = end, 0.0
        elif total > best_total + 1e-9:
            best, best_total = (begin, end), total
    return best

"""Links between words: read from attention weights or from Pharaoh files, and their error rate.

A link (i, j) says that word i of the source and word j of the target translate each other, both
counted from 0. Pharaoh files write it in the same order, as `i-j`.
"""

import re
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.base.errors import DataError
from seq2seq.base.text_stream import TextBytes, without_marks

Span = tuple[int, int]  # start and end of a piece or a word in its text
Link = tuple[int, int]
LinkSet = Set[Link]


# Weight added to the sum of a source word, so that small weights, or those of the only target word,
# do not become large shares.
PRIOR = 0.05
NEIGHBOUR = 0.3  # factor of the shares of diagonal neighbours, which are added to a word's


class Word(NamedTuple):
    """A word and its position: `sentence[start:end] == text`."""

    text: str
    start: int
    end: int


class Links(NamedTuple):
    """The links of a sentence pair; every sure link is also a possible one."""

    sure: set[Link]
    possible: set[Link]


def words(text: str) -> list[Word]:
    """The words of a text as Pharaoh files count them: separated by ASCII white space.

    A no-break space is part of its word, as in other tools that write such files.
    """
    return [Word(m.group(), *m.span()) for m in re.finditer(r"[^ \t\n\r\f\v]+", text)]


# Punctuation: each mark is a token, except some marks between letters.
MARK = (
    r"!-/:-@\[-`{-~¡§«¶·»¿\u055a-\u055f\u0589\u05be\u05c0\u05c3\u060c\u061b\u061f\u0964\u0965"
    r"\u2010-\u2027\u2030-\u205e\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01-\uff0f\uff1a-\uff20"
)
TOKEN = re.compile(rf"[^\s{MARK}]++(?:['’.,\-_][^\s{MARK}]++)*|[{MARK}]")

STRIPPED = re.compile(r"\S(?:.*\S)?", re.S)


def words_and_marks(text: str) -> list[Word]:
    """The words of a text, with each punctuation mark as a separate word."""
    return [Word(m.group(), *m.span()) for m in TOKEN.finditer(text)]


def spans_to_words(text: str, spans: Iterable[Span]) -> list[Word]:
    """The tokenizer's pieces as words, for languages that put no spaces between words.

    Pieces that share a character (bytes of one Chinese character) become one; white space around a
    piece is stripped, and pieces of white space alone are left out.
    """
    merged: list[Span] = []
    for start, end in spans:
        if start < end:
            first, last = merged.pop() if merged and start < merged[-1][1] else (start, end)
            merged.append((first, max(end, last)))
    stripped = (STRIPPED.search(text, *span) for span in merged)
    return [Word(match[0], *match.span()) for match in stripped if match]


def share_out(weights: Tensor) -> Tensor:
    """Divide the weights of each source word by their sum over the translation.

    Args:
        weights: (..., target words, source words + 1), as in `extract_links`.

    Returns: (..., target words, source words), from 0 to 1.
    """
    to_words = weights[..., :-1].double()
    return to_words / (to_words.sum(-2, keepdim=True) + PRIOR)


def compete(weights: Tensor) -> Tensor:
    """Let source words compete for target words.

    Some source words, often the last, attract weight from all target words, so weights are replaced
    by shares, see `share_out`. Links are preferred where the words before or after both are linked
    too: each share gets a part of its diagonal neighbours.

    Args:
        weights: (..., target words, source words + 1), as in `extract_links`.

    Returns: weights of the same shape, 0 where they were 0. In the last column they are 2, more
        than any other, for a target word with a larger weight on the end of the source than on any
        word, which thus has no link; otherwise 0.
    """
    shares = share_out(weights)
    rows = shares / shares.sum(-1, keepdim=True).clamp(min=1e-9)
    support = rows.clone()
    support[..., 1:, 1:] += NEIGHBOUR * rows[..., :-1, :-1]
    support[..., :-1, :-1] += NEIGHBOUR * rows[..., 1:, 1:]
    at_end = (weights[..., -1:] > weights[..., :-1]).all(-1, keepdim=True)
    return torch.cat([support.masked_fill(shares <= 0, 0.0), 2.0 * at_end], -1)


def extract_links(weights: Tensor, *, near: float = 1.0, threshold: float = 0.0) -> set[Link]:
    """Link each target word to the source word with the largest weight.

    Args:
        weights: (target words, source words + 1); the last column is for the source's end symbol. A
            target word with a larger weight there than on any word corresponds to no source word,
            and has no link.
        near: minimum weight of further links, as a share of the largest weight; 1 for no further
            links. Use less for a head trained to spread its weight over all linked words.
        threshold: a target word has no link if its largest weight is less than this share of its
            weight on all words: its attention is too diffuse.

    Returns: pairs (source word, target word). With near=1, only the first of equal weights is a
        link. A row without positive weight has none.
    Raises: ValueError if `near` is not above 0 and at most 1.
    """
    if not 0 < near <= 1:
        raise ValueError(f"near={near} should be above 0 and at most 1")
    linked = set()
    for j, (*to_words, to_end) in enumerate(weights.tolist()):
        best = max(to_words, default=0.0)
        if not (best > 0 and best >= to_end and best >= threshold * sum(to_words)):
            continue
        if near == 1:
            linked.add((to_words.index(best), j))
        else:
            linked.update((i, j) for i, weight in enumerate(to_words) if weight >= near * best)
    return linked


def format_links(sure: Iterable[Link], possible: Iterable[Link] = ()) -> str:
    """Links as a line of a Pharaoh file, in order: `0-0 1p2`. A sure link is written once."""
    marks = dict.fromkeys(possible, "p") | dict.fromkeys(sure, "-")
    return " ".join(f"{i}{marks[i, j]}{j}" for i, j in sorted(marks))


def parse_links(line: str, where: str = "the line") -> Links:
    """The links of one line of a Pharaoh file: `i-j` sure, `ipj` or `i?j` possible.

    Raises: DataError with `where` and the invalid text, if a part of the line is not a link.
    """
    parsed = Links(set(), set())
    for text in line.split():
        match = re.fullmatch(r"([0-9]{1,9})([-p?])([0-9]{1,9})", text)
        if match is None:
            raise DataError(
                f"{where}: {text[:40]!r} is not a link. Write i-j (sure) or ipj (possible), word "
                "numbers from 0, source first, with a space between links."
            )
        link = int(match[1]), int(match[3])
        parsed.possible.add(link)
        if match[2] == "-":
            parsed.sure.add(link)
    return parsed


def read_alignment(path: Path) -> list[Links]:
    """The links of every sentence pair in a Pharaoh file, one line each; gzip is unpacked.

    Raises: DataError with file and line, if a part of a line is not a link.
    """
    try:
        with path.open("rb") as file:
            content = TextBytes(file, f"the alignment {path}").read() or b""
        text = without_marks(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: this is not a text of links (it is not UTF-8)") from error
    except OSError as error:
        raise DataError(f"cannot read the alignment {path}: {error}") from error
    lines = text.removesuffix("\n").split("\n") if text else []
    return [parse_links(line, f"{path}:{line_no}") for line_no, line in enumerate(lines, 1)]


def check_line_count(path: Path, lines: int, pairs: int, of: str) -> None:
    """Check that a file of links has one line per pair.

    Args:
        of: name of the pairs' files, for messages: `a.de and a.en`.

    Raises: DataError if the numbers differ.
    """
    if lines != pairs:
        raise DataError(
            f"{path} has {lines:,} lines of links for {pairs:,} pairs of {of}: there should be one "
            "line for each pair, empty if it has no links"
        )


def check_all_links(
    path: Path, links: Sequence[Links], sizes: Iterable[tuple[int, int]], of: str
) -> None:
    """Check that all links are between words that exist.

    Args:
        sizes: numbers of source and target words of each pair.
        of: name of the pairs' files, as in `check_line_count`.

    Raises: DataError with file and line of the first link out of range.
    """
    for line_no, (pair, size) in enumerate(zip(links, sizes, strict=True), start=1):
        check_pair_links(pair, size, f"{path}:{line_no}", of)


def check_pair_links(links: Links, size: tuple[int, int], where: str, of: str) -> None:
    """Check that the links of a pair are between words that exist.

    Args:
        size: numbers of source and target words.
        where: file and line, for messages.
        of: name of the pairs' files, as in `check_line_count`.

    Raises: DataError for the first link out of range.
    """
    for i, j in sorted(links.possible):
        if i < size[0] and j < size[1]:
            continue
        side, index, words = ("target", j, size[1]) if i < size[0] else ("source", i, size[0])
        last = f"its last word is {words - 1}" if words else "it has no word"
        raise DataError(
            f"{where}: link {i}-{j} is out of range: there is no {side} word {index}; {last}. "
            f"Words are counted from 0, and are separated by spaces in {of}; the source comes first"
        )


class LinkCounts(NamedTuple):
    """Counts of predicted links that agree with reference links; counts of pairs can be added.

    For predicted links A, sure ones S and possible ones P, which include S:

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

    0 is perfect, 1 shares no link; without any links it is 0.

    Attributes:
        predicted: |A|.
        sure: |S|.
        sure_hits: |A & S|.
        possible_hits: |A & P|, S included.

    Source: Och and Ney 2003 (J03-1002).
    """

    predicted: int
    sure: int
    sure_hits: int
    possible_hits: int

    @classmethod
    def of(cls, predicted: LinkSet, sure: LinkSet, possible: LinkSet) -> "LinkCounts":
        """The counts of a sentence pair; sure links count as possible, even if not listed there."""
        matches = predicted & sure, predicted & (sure | possible)
        return cls(len(predicted), len(sure), *map(len, matches))

    @classmethod
    def total(cls, counts: Iterable["LinkCounts"]) -> "LinkCounts":
        """The counts of a corpus: the sums over its pairs."""
        return cls(*map(sum, zip(cls(0, 0, 0, 0), *counts, strict=True)))

    @property
    def aer(self) -> float:
        """The alignment error rate."""
        total = self.predicted + self.sure
        return 1 - (self.sure_hits + self.possible_hits) / total if total else 0.0

    @property
    def precision(self) -> float:
        """The share of the predicted links that are possible; 1 without predicted links."""
        return self.possible_hits / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """The share of the sure links that are predicted; 1 without sure links."""
        return self.sure_hits / self.sure if self.sure else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both are 0."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

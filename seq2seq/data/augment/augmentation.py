"""Augmentation of the rows of a corpus: each pass changes a different selection of pairs.

Only the corpus is stored: its pieces are decoded to text, changed, and encoded again.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from seq2seq.alignment.links import Links
from seq2seq.base.symbols import UNK
from seq2seq.data.augment.augmented_text import (
    KINDS,
    AugmentOptions,
    SentencePair,
    augment,
    draw_kinds,
    draw_numbers,
)
from seq2seq.data.augment.subword_regularization import (
    CACHED,
    SAMPLE,
    PassRows,
    SubwordRegularization,
    max_pieces_of,
)
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.corpus.ragged_array import RaggedArray
from seq2seq.data.links.link_files import link_entries, word_links_of
from seq2seq.data.links.piece_links import ENTRY, PieceLinks
from seq2seq.text.tokenization.tokenizer import Tokenizers

CHUNK = 2**18  # rows whose kinds are drawn together
FITTING = 0.98  # share of the rows that fit in their estimated room


class RowText:
    """Decodes the text of rows from their pieces, and encodes text as the corpus was encoded.

    Args:
        corpus: a corpus of pieces, without subword regularization.
        tokenizers: the tokenizers of the corpus.
        links: links between the words of each row; None for a corpus without links.
        to_end: see `LinkFiles`.
    """

    def __init__(
        self, corpus: Corpus, tokenizers: Tokenizers, links: RaggedArray | None, to_end: bool
    ):
        self.corpus, self._tokenizers, self._links, self._to_end = corpus, tokenizers, links, to_end

    def read(self, row: int) -> SentencePair | None:
        """The text of a row; None if encoding it again gives other pieces, or if its words do
        not match the row's links.
        """
        sides = self.corpus.source(row).tolist(), self.corpus.target(row).tolist()
        tokenizers = self._tokenizers
        source, target = (
            tokenizer.decode_batch([ids])[0]
            for tokenizer, ids in zip(tokenizers, sides, strict=True)
        )
        pair = SentencePair(source, target, Links(set(), set()))
        again = self.encode(pair)
        tag = sides[0][: min(1, len(sides[0]) - len(again[0]))]
        if UNK in (*sides[0], *sides[1]) or sides != ([*tag, *again[0]], again[1]):
            return None
        if self._links is None:
            return pair._replace(tag=tag)
        links = word_links_of(self._links[row], source, target)
        return None if links is None else pair._replace(links=links, tag=tag)

    def encode(self, pair: SentencePair) -> list[list[int]]:
        """The pieces of the source with its tag, and of the target."""
        (source,) = self._tokenizers.source.encode_batch([pair.source])
        (target,) = self._tokenizers.target.encode_batch([pair.target])
        return [[*pair.tag, *source], target]

    def link_pieces(self, pair: SentencePair) -> np.ndarray:
        """Links between the pieces of a pair; empty if the corpus has no links."""
        if self._links is None:
            return np.empty(0, ENTRY)
        spans = (
            self._tokenizers.source.spans(pair.source),
            self._tokenizers.target.spans(pair.target),
        )
        return link_entries(pair.links, pair[:2], spans, len(pair.tag), self._to_end)


class Variant(NamedTuple):
    """The pieces of an augmented pair, and the links between them if the corpus has links."""

    source: list[int]
    target: list[int]
    links: np.ndarray


class Growth(NamedTuple):
    """The growth of rows of length n, in pieces: `factor` n on average, and at most
    `factor` (n + `spread` sqrt n) for nearly all rows.
    """

    factor: float = 1.0
    spread: float = 0.0


class Augmentation:
    """The augmented pairs of each pass: a pure function of (seed, epoch, row).

    An augmented pair has more pieces; in capitals, several times as many. So that no batch exceeds
    its bound, batches are formed by the room of each row in this pass. It is estimated from a
    sample of each component so that nearly all rows fit. A pair keeps its plain pieces if it does
    not fit, if they do not give its text exactly, or if the changed text needs unknown symbols.

    Args:
        text: the text of the rows of a corpus of plain pieces.
        options: augmentation options of each component.
        seed: seed of the draws, 0 <= seed < 2^32.
        max_length: maximum pieces of a sentence, EOS included.
        subwords: segments the pairs differently in each pass; None to keep the segmentation.

    Attributes:
        lengths: function from the epoch to the maximum pieces of each source and of each target,
            (rows,) int32, EOS not counted.
        growth: average ratio of pieces with and without augmentation, of sources and targets.
    """

    def __init__(
        self,
        text: RowText,
        options: Sequence[AugmentOptions],
        *,
        seed: int,
        max_length: int,
        subwords: SubwordRegularization | None = None,
    ):
        self._corpus, self._text, self._options = text.corpus, text, options
        self._seed, self._max_pieces, self._subwords = seed, max_length - 1, subwords
        self._plain = self._corpus.lengths
        self._rooms = self._plain if subwords is None else subwords.rooms
        self._of_subwords = [1.0, 1.0] if subwords is None else subwords.growth
        self._growths = [self._measure(number) for number in range(len(options))]
        # Cached for the current pass only: 9 bytes per row.
        self._kinds, self.lengths = lru_cache(1)(self._draw_kinds), lru_cache(1)(self._estimate)
        self.growth = [self._average_growth(side) for side in (0, 1)]

    def rows(self, epoch: int) -> PassRows:
        """The pairs of a pass; the augmented ones of the last batches are cached."""
        plain = self._corpus if self._subwords is None else self._subwords.rows(epoch)
        variant_of = lru_cache(CACHED)(partial(self.draw, epoch=epoch))

        def unless_augmented(plain_of: Callable[[int], Any], field: str) -> Callable[[int], Any]:
            def of_row(row: int) -> Any:
                variant = variant_of(row)
                return plain_of(row) if variant is None else getattr(variant, field)

            return of_row

        source = unless_augmented(plain.source, "source")
        target = unless_augmented(plain.target, "target")
        if self._corpus.links is None:
            return PassRows(source, target)
        links = unless_augmented(self._corpus.links.row, "links")
        return PassRows(source, target, PieceLinks(links, None))

    def draw(self, row: int, epoch: int) -> Variant | None:
        """The augmented form of a row in a pass; None if the row is unchanged."""
        kinds = int(self._kinds(epoch)[row])
        text = self._text.read(row) if kinds else None
        if text is None:
            return None
        pair = augment(text, kinds, draw_numbers(self._seed, epoch, row))
        if pair == text:
            return None
        sides = self._text.encode(pair)
        for side, (ids, rooms) in enumerate(zip(sides, self.lengths(epoch), strict=True)):
            if UNK in ids or len(ids) > rooms[row]:
                return None
            if self._subwords is not None:
                drawn = self._subwords.segment(side, ids, row, epoch)
                sides[side] = drawn if len(drawn) <= rooms[row] else ids
        return Variant(sides[0], sides[1], self._text.link_pieces(pair))

    def _draw_kinds(self, epoch: int) -> np.ndarray:
        """The kinds of augmentation of each row, as bits: (rows,) uint8."""
        kinds = np.zeros(len(self._corpus), np.uint8)
        for share, options in zip(self._corpus.shares, self._options, strict=True):
            for start in range(share.start, share.stop, CHUNK):
                stop = min(start + CHUNK, share.stop)
                kinds[start:stop] = draw_kinds(options, self._seed, epoch, start, stop)
        return kinds

    def _estimate(self, epoch: int) -> list[np.ndarray]:
        """Maximum pieces of each source and of each target, (rows,) int32, EOS not counted."""
        of_sides = [np.array(rooms, np.int32) for rooms in self._rooms]
        kinds = self._kinds(epoch)
        for number, share in enumerate(self._corpus.shares):
            for start in range(share.start, share.stop, CHUNK):
                rows = start + kinds[start : min(start + CHUNK, share.stop)].nonzero()[0]
                for side, rooms in enumerate(of_sides):
                    rooms[rows] = self._room(side, number, rows, kinds[rows])
        return of_sides

    def _room(self, side: int, number: int, rows: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Maximum pieces, int32, of some rows of a component, augmented by these kinds."""
        growth = np.full(len(rows), self._of_subwords[side], np.float32)
        spread = np.full(len(rows), self._subwords is not None, np.float32)
        for kind, growths in zip(KINDS, self._growths[number], strict=True):
            growth[(kinds & kind) > 0] *= growths[side].factor
            spread[(kinds & kind) > 0] += growths[side].spread
        plain, rooms = self._plain[side][rows], self._rooms[side][rows]
        wanted = max_pieces_of(plain, growth, self._max_pieces, growth * spread)
        room: np.ndarray = np.maximum(rooms, wanted)
        return room

    def _measure(self, number: int) -> list[list[Growth]]:
        """The growth of a component's sources and targets under each kind of augmentation."""
        share, rates = self._corpus.shares[number], vars(self._options[number]).values()
        count = min(SAMPLE, share.stop - share.start)
        sample = np.linspace(share.start, share.stop - 1, count, dtype=np.int64).tolist()
        return [
            measure_growth(self._text, sample if rate else [], kind)
            for kind, rate in zip(KINDS, rates, strict=True)
        ]

    def _average_growth(self, side: int) -> float:
        """Average growth of all rows of one side."""
        components = zip(self._corpus.shares, self._options, self._growths, strict=True)
        more = (
            (share.stop - share.start) * rate * (growth[side].factor - 1)
            for share, options, growths in components
            for rate, growth in zip(vars(options).values(), growths, strict=True)
        )
        return float(self._of_subwords[side] * (1 + sum(more) / len(self._corpus)))


def measure_growth(text: RowText, rows: Sequence[int], kind: int) -> list[Growth]:
    """Measure how one kind of augmentation lengthens the sources and targets of some rows."""
    pieces = []  # for each row: (2: before and after, 2: source and target)
    for row in rows:
        before = text.read(row)
        if before is not None:
            pairs = before, augment(before, kind, draw_numbers(0, 0, row))
            pieces.append([[len(ids) for ids in text.encode(pair)] for pair in pairs])
    if not pieces:
        return [Growth(), Growth()]
    growths = []
    for plain, grown in np.array(pieces, np.float64).transpose(2, 1, 0):
        factor = max(1.0, float(grown.sum() / plain.sum()))
        spread = float(np.quantile((grown / factor - plain) / np.sqrt(plain), FITTING))
        growths.append(Growth(factor, max(0.0, spread)))
    return growths

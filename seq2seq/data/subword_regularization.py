"""BPE dropout: segment the pairs of a corpus differently in every epoch (Provilkov et al. 2020).

Only the corpus is kept: decoding its plain pieces gives the text to be segmented again.
"""

import heapq
import json
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain, pairwise, repeat

import numpy as np
import tokenizers

from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizer import Tokenizer, Tokenizers
from seq2seq.errors import ConfigError

CACHED_WORDS = 2**16  # whose plain pieces are cached
DRAWS = 64  # made at a time


class Merger:
    """Segments text into the pieces of a byte-level BPE tokenizer, dropping some merges.

    At each step every possible merge of a word is dropped with some probability, and of the others
    the one learnt first is applied; a word whose merges were all dropped stays as it is. Merges are
    drawn in the order in which they were learnt until one is kept: draws for the others would
    change nothing.

    Args:
        tokenizer: learnt with `ByteLevelBPE`.

    Raises: ConfigError for a tokenizer of another kind.
    """

    def __init__(self, tokenizer: Tokenizer):
        model = json.loads(tokenizer.to_json())["model"]
        if model["type"] != "BPE":
            raise ConfigError(
                f"tokenizer.dropout leaves out merges, and a tokenizer like {model['type']} has "
                "none: tokenizer=bpe, or leave it out"
            )
        library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        self._cut = library.pre_tokenizer
        self._ids: dict[str, int] = model["vocab"]
        ids = self._ids
        # Two pieces -> the rank of their merge, and the merged piece.
        self._merges = {
            (ids[one], ids[other]): (rank, ids[one + other])
            for rank, (one, other) in enumerate(model["merges"])
        }
        self._word = lru_cache(CACHED_WORDS)(self._plain_word)

    def segment(self, text: str, drops: Iterator[bool]) -> list[int]:
        """The ids of a text that is normalised already, without a tag.

        Args:
            drops: for each merge in turn, whether it is dropped.
        """
        words = (word for word, _ in self._cut.pre_tokenize_str(text))
        return list(chain.from_iterable(self._pieces(word, drops) for word in words))

    def tags(self, ids: list[int]) -> list[int]:
        """The tag of the corpus before the pieces of a text, if it has one."""
        return [piece for piece in ids[:1] if piece >= len(self._ids)]

    def _pieces(self, word: str, drops: Iterator[bool]) -> list[int]:
        symbols, plain = self._word(word)
        for made in range(len(symbols) - len(plain)):
            if next(drops):
                # Repeat the draws so far, which kept all merges before this dropped one.
                return self._merged(symbols, chain(repeat(False, made), (True,), drops))
        return plain

    def _plain_word(self, word: str) -> tuple[list[int], list[int]]:
        """A word as bytes, and as its pieces without dropout."""
        symbols = [self._ids[letter] for letter in word]
        return symbols, self._merged(symbols, repeat(False))

    def _merged(self, symbols: list[int], drops: Iterator[bool]) -> list[int]:
        """Symbols after all merges except the dropped ones."""
        pieces, end = symbols.copy(), len(symbols)
        after, before = list(range(1, end + 1)), list(range(-1, end - 1))
        possible = [
            (*self._merges[pair], place, *pair)
            for place, pair in enumerate(pairwise(pieces))
            if pair in self._merges
        ]
        heapq.heapify(possible)
        dropped = []  # in this step
        while possible:
            merge = heapq.heappop(possible)
            _, made, place, one, other = merge
            second = after[place]
            if pieces[place] != one or second == end or pieces[second] != other:
                continue  # another merge has consumed one of the two
            if next(drops):
                dropped.append(merge)
                continue
            pieces[place], pieces[second] = made, -1
            third = after[place] = after[second]
            neighbours = [(before[place], place)] if before[place] >= 0 else []
            if third < end:
                before[third] = place
                neighbours.append((place, third))
            for left, right in neighbours:
                pair = pieces[left], pieces[right]
                if pair in self._merges:
                    heapq.heappush(possible, (*self._merges[pair], left, *pair))
            for merge in dropped:
                heapq.heappush(possible, merge)
            dropped.clear()
        return [piece for piece in pieces if piece >= 0]


def drops(p: float, seed: int, epoch: int, row: int, side: int) -> Iterator[bool]:
    """Endless draws, True with probability p: a pure function of (seed, epoch, row, side).

    From a counter-based generator (Philox; Salmon et al. 2011), so the draws of a row do not depend
    on which rows are asked for, or in which order.

    Args:
        p: 0 <= p < 1.
        seed: 0 <= seed < 2^32.
        epoch, row: from 0.
        side: 0 for sources, 1 for targets.
    """
    generator = np.random.Philox(key=[seed, epoch], counter=[0, 0, row, side])
    bound = np.uint64(int(p * 2**64))
    while True:
        yield from (generator.random_raw(DRAWS) < bound).tolist()


SAMPLE = 500  # rows from which the growth of sentences is estimated


class SubwordRegularization:
    """The segmentation of each row in an epoch: a pure function of (seed, epoch, row, side).

    Dropout makes more pieces. So that no batch exceeds its bound, each row is given room for more
    pieces than it has, and batches are formed by that: the average of rows of its length plus the
    root of its length, which is enough for nearly all rows, but never more than `max_length`
    allows. A row that would not fit keeps its plain pieces in this epoch.

    Args:
        corpus: of plain pieces.
        tokenizers: of byte-level BPE, those of the corpus.
        p: probability with which a merge is dropped, 0 < p < 1.
        seed: of the draws.
        max_length: maximum pieces of a sentence, EOS included.

    Attributes:
        growth: average ratio of pieces with and without dropout, of sources and of targets.
        rooms: (rows,) int32 maximum pieces of each source, and of each target, EOS not counted.

    Raises: ConfigError for tokenizers of another kind.
    """

    def __init__(
        self, corpus: Corpus, tokenizers: Tokenizers, *, p: float, seed: int, max_length: int
    ):
        self._corpus, self._tokenizers = corpus, tokenizers
        self._p, self._seed = p, seed
        merger_of = cache(Merger)  # one, if the sides share their tokenizer
        self._mergers = [merger_of(each) for each in tokenizers]
        lengths = corpus.source_lengths, corpus.target_lengths
        sample = np.linspace(0, len(corpus) - 1, min(SAMPLE, len(corpus)), dtype=np.int64)
        self.growth: list[float] = []
        self.rooms: list[np.ndarray] = []
        for side, plain in enumerate(lengths):
            drawn = sum(len(self._cut(side, int(row), 0)) for row in sample)
            self.growth.append(drawn / int(plain[sample].sum()))
            self.rooms.append(room(plain, self.growth[side], max_length - 1))

    def draw(self, side: int, row: int, epoch: int) -> list[int] | np.ndarray:
        """The pieces of a row in an epoch: of its source (side 0) or its target (1)."""
        cut = self._cut(side, row, epoch)
        return cut if len(cut) <= self.rooms[side][row] else self._plain(side, row)

    def _plain(self, side: int, row: int) -> np.ndarray:
        return self._corpus.target(row) if side else self._corpus.source(row)

    def _cut(self, side: int, row: int, epoch: int) -> list[int]:
        plain = self._plain(side, row).tolist()
        merger = self._mergers[side]
        text = self._tokenizers[side].decode_batch([plain])[0]
        draws = drops(self._p, self._seed, epoch, row, side)
        return [*merger.tags(plain), *merger.segment(text, draws)]


class Resegmented:
    """The corpus as segmented in one epoch; drawn rows are cached."""

    links = None

    def __init__(self, subwords: SubwordRegularization, epoch: int):
        self.source = cache(lambda row: subwords.draw(0, row, epoch))
        self.target = cache(lambda row: subwords.draw(1, row, epoch))

    def count_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of some rows, EOS counted."""
        return sum(len(self.target(int(row))) + 1 for row in rows)


def room(lengths: np.ndarray, growth: float, max_pieces: int) -> np.ndarray:
    """Maximum pieces of rows of these lengths with dropout, int32."""
    wanted = np.ceil(lengths * np.float32(growth) + np.sqrt(lengths, dtype=np.float32))
    rooms: np.ndarray = np.maximum(lengths, np.minimum(wanted, max_pieces))
    return rooms.astype(np.int32)

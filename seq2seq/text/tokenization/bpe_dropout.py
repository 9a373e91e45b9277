"""BPE dropout: splits words into pieces with some merges left out (Provilkov et al. 2020)."""

import heapq
import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, repeat

import numpy as np
import tokenizers

from seq2seq.base.errors import ConfigError
from seq2seq.text.tokenization.tokenizer import Tokenizer

CACHED_WORDS = 2**16  # words whose pieces without dropout are cached
DRAWS = 64  # random numbers drawn at a time


class BPEDropout:
    """Segments text into the pieces of a byte-level BPE tokenizer, dropping some merges.

    At each step, every possible merge in a word is dropped with some probability, and of the rest
    the one learnt first is applied. If all are dropped, the word is finished. Drops are drawn in
    the order in which merges were learnt, until one is kept; more draws would change nothing.

    Args:
        tokenizer: tokenizer learnt by `ByteLevelBPE`.

    Raises: ConfigError for a tokenizer of another kind.
    """

    def __init__(self, tokenizer: Tokenizer):
        model = json.loads(tokenizer.to_json())["model"]
        if model["type"] != "BPE":
            raise ConfigError(
                f"tokenizer.dropout leaves out merges, but a tokenizer of type {model['type']} has "
                "none: type tokenizer=bpe, or leave out tokenizer.dropout"
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
        """The ids of a normalised text, without a tag.

        Args:
            drops: for each merge in turn, whether to drop it.
        """
        words = (word for word, _ in self._cut.pre_tokenize_str(text))
        return list(chain.from_iterable(self._pieces(word, drops) for word in words))

    def tags(self, ids: list[int]) -> list[int]:
        """The corpus tag at the start of a text's ids, in a list; empty if there is none."""
        return [piece for piece in ids[:1] if piece >= len(self._ids)]

    def _pieces(self, word: str, drops: Iterator[bool]) -> list[int]:
        symbols, plain = self._word(word)
        for made in range(len(symbols) - len(plain)):
            if next(drops):
                # Start again with the same draws: all merges before this one were kept.
                return self._merge(symbols, chain(repeat(False, made), (True,), drops))
        return plain

    def _plain_word(self, word: str) -> tuple[list[int], list[int]]:
        """The ids of the bytes of a word, and of its pieces without dropout."""
        symbols = [self._ids[letter] for letter in word]
        return symbols, self._merge(symbols, repeat(False))

    def _merge(self, symbols: list[int], drops: Iterator[bool]) -> list[int]:
        """Apply all merges except the dropped ones."""
        end = len(symbols)
        pieces = [*symbols, -1]  # -1 merges with nothing: it is both after the end and at index -1
        after, before = [*range(1, end + 1), end], list(range(-1, end))
        possible: list[tuple[int, ...]] = []

        def consider(place: int) -> None:
            pair = pieces[place], pieces[after[place]]
            if pair in self._merges:
                heapq.heappush(possible, (*self._merges[pair], place, *pair))

        for place in range(end):
            consider(place)
        dropped = []  # in this step
        while possible:
            merge = heapq.heappop(possible)
            _, made, place, one, other = merge
            second = after[place]
            if pieces[place] != one or pieces[second] != other:
                continue  # another merge has used one of the two
            if next(drops):
                dropped.append(merge)
                continue
            pieces[place], pieces[second] = made, -1
            after[place] = after[second]
            before[after[place]] = place
            consider(before[place])
            consider(place)
            for merge in dropped:
                heapq.heappush(possible, merge)
            dropped.clear()
        return [piece for piece in pieces if piece >= 0]


def draw_drops(p: float, seed: int, epoch: int, row: int, side: int) -> Iterator[bool]:
    """Endless random draws, True with probability p: a pure function of the arguments.

    The generator is counter-based (Philox; Salmon et al. 2011), so the draws for a row do not
    depend on which other rows are read, or in which order.

    Args:
        p: 0 <= p < 1.
        seed: 0 <= seed < 2^32.
        epoch, row: numbers from 0.
        side: 0 for sources, 1 for targets.
    """
    generator = np.random.Philox(key=[seed, epoch], counter=[0, 0, row, side])
    bound = np.uint64(int(p * 2**64))
    while True:
        yield from (generator.random_raw(DRAWS) < bound).tolist()

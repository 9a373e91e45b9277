"""The bytes of pieces, and the pieces by which a string may go on, however the text is cut.

Every piece writes bytes. A half-typed word is completed, and a phrase found, by its bytes.
"""

import json
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from os.path import commonprefix
from typing import NamedTuple

import tokenizers
import torch
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import UNK
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.text.tokenization.unigram import BYTES, FOREIGN, MARK

# A character that no normalizer changes, drops, or combines with the one before it.
GUARD = "\ue000"
# Byte-level tokenizers cut these in two, but not what they become with one more letter: 're, 've,
# 'll. Nothing else that follows a word changes the words before it.
CONTRACTIONS = [["'", letter] for letter in "rvl"]
# What a phrase may stand between.
BEFORE = ("a ", "", "(", '"')
AFTER = ("", *'.,;:!?)"')
MAX_CACHED = 1000  # phrases


class Extension(NamedTuple):
    """The beginning of a text: the pieces `forced`, then pieces that write `rest`."""

    forced: list[int]
    rest: bytes  # empty = nothing more to require


class Spelling:
    """The bytes of the pieces of a tokenizer, and the texts that these spell.

    Bytes are those of the text as the tokenizer's normalizer writes it, see `bytes_of`. For unigram
    and word tokenizers, that is with a space before the text: the first piece of a text writes
    that, too, and decoding drops it. For others, the first piece is like any.

    Args:
        tokenizer: of any kind. Its pieces are read once, here.

    Attributes:
        writes: the bytes of each id. Control symbols, tags and the unknown symbol write nothing.
        spellings: `_find_spellings`, which remembers the last phrases.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._library = library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        decoder = json.loads(library.decoder.__getstate__())
        steps = [step["type"] for step in decoder.get("decoders", [decoder])]
        if "BPEDecoder" in steps:
            raise ConfigError(
                "with tokenizer=subword_nmt a piece does not say what follows it: prefixes and "
                "required or forbidden words need another tokenizer"
            )
        self._byte_level = "ByteLevel" in steps
        self._table = byte_letters() if self._byte_level else {}
        if "Replace" in steps:
            self._table = {ord(MARK): ord(" ")}
        added = library.get_added_tokens_decoder()
        byte_of = {name: bytes([i]) for i, name in enumerate(BYTES) if "ByteFallback" in steps}
        names = (library.id_to_token(i) or "" for i in range(tokenizer.size))
        self.writes = [
            b"" if i in added else byte_of.get(name) or self._bytes_of(name)
            for i, name in enumerate(names)
        ]
        self._ids: dict[bytes, list[int]] = {}
        for i, written in enumerate(self.writes):
            if written:
                self._ids.setdefault(written, []).append(i)
        self._sorted = sorted(self._ids)
        self._max_bytes = max(map(len, self._sorted), default=0)
        rank = {written: rank for rank, written in enumerate(self._sorted)}
        self._rank = torch.tensor([rank.get(written, -1) for written in self.writes])
        # Each phrase is spelled when it is checked, and when a guide is made.
        self.spellings = lru_cache(MAX_CACHED)(self._find_spellings)

    def bytes_of(self, text: str) -> bytes:
        """The bytes of a text as the tokenizer's normalizer writes it."""
        return b"".join(map(self._bytes_of, self._words(text)))

    def write(self, ids: list[int]) -> bytes:
        """The bytes of pieces."""
        return b"".join(self.writes[i] for i in ids)

    def extend(self, prefix: str) -> Extension:
        """The beginning of all texts that begin with a prefix.

        The pieces of every word but the last are forced: no later text changes them. The last word
        (for byte-level BPE and unigram with the space before it) may grow. Wherever its last piece
        ends, the pieces before that are those of the word up to there, in byte pair encoding
        (Berglund and van der Merwe 2023, arXiv:2309.08715) and in a unigram model, where they are
        the best path to there. What is left must then begin a longer piece. So pieces are forced if
        they are the same for all places where this is possible: all but the last one or few, in
        text without spaces too.

        A space at the end is part of `rest` if pieces begin with a space. So it closes a word,
        while a word without it may grow.

        Raises: ConfigError naming a word that has no pieces.
        """
        words = self._words(prefix) if prefix else []
        closed, last = words[:-1], "".join(words[-1:])
        if self._byte_level and words[-2:] in CONTRACTIONS:
            closed, last = words[:-2], ""
        forced = [i for word in closed for i in self._pieces_up_to(word, [len(word)])[0]]
        ends = range(max(0, len(last) - self._max_bytes), len(last) + 1)
        ends_of_pieces = [end for end in ends if self._may_grow(self._bytes_of(last[end:]))]
        forced += commonprefix(self._pieces_up_to(last, ends_of_pieces))  # noqa: RUF071 - of lists
        done = sum(len(self.writes[i]) for i in forced)
        return Extension(forced, b"".join(map(self._bytes_of, words))[done:])

    def fewest_pieces(self, text: bytes) -> list[int]:
        """The fewest pieces that write these bytes, however a tokenizer would cut them; of equally
        few the longest first. Empty if none do.
        """
        best: list[list[int] | None] = [None] * len(text) + [[]]  # of the bytes from each place on
        for start in reversed(range(len(text))):
            for end in range(min(len(text), start + self._max_bytes), start, -1):
                rest, ids = best[end], self._ids.get(text[start:end])
                shortest = best[start]
                if ids and rest is not None and (not shortest or len(rest) + 1 < len(shortest)):
                    best[start] = [ids[0], *rest]
        return best[0] or []

    def pieces_for(self, rest: bytes) -> Tensor:
        """Pieces that can continue a text whose remainder is `rest`.

        Returns: (n,) int64 sorted ids: pieces that begin with it, and pieces that are a beginning
            of it, if pieces can spell what is left then. n > 0 for what `extend` returns. EOS and
            other ids that write nothing are never among them.
        """
        span = len(rest)
        first, after = self._ranks_of(rest)
        mask = (self._rank >= first) & (self._rank < after)
        spellable = self._find_spellable(rest)
        for end in range(1, min(span, self._max_bytes + 1)):
            if spellable[end]:
                mask[self._ids.get(rest[:end], [])] = True
        return mask.nonzero().squeeze(1)

    def pieces_within(self, text: bytes) -> set[int]:
        """The pieces that write any part of a text, or its end and more."""
        found: set[int] = set()
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + self._max_bytes) + 1):
                found.update(self._ids.get(text[start:end], ()))
        for start in range(max(0, len(text) - self._max_bytes), len(text)):
            longer = self._sorted[slice(*self._ranks_of(text[start:]))]
            found.update(i for written in longer for i in self._ids[written])
        return found

    def _find_spellings(self, phrase: str) -> list[list[int]]:
        """The pieces of a phrase, cut as in a sentence, at its beginning, in brackets or quotes and
        before punctuation, each different list once; the most usual one first.

        A piece that writes part of the phrase belongs to it even if it writes punctuation too
        ("house."). To count, the lists must begin and end at word boundaries.

        Raises: ConfigError naming words that have no pieces, and for an empty phrase.
        """
        phrase = phrase.strip()
        if not phrase:
            raise ConfigError("a phrase is empty: give at least one word")
        cuts = [(before, after) for after in AFTER for before in BEFORE]
        rows = self._tokenizer.encode_batch([before + phrase + after for before, after in cuts])
        wanted = self.bytes_of(phrase).lstrip(b" ")
        spellings = dict.fromkeys(
            self._pieces_of(wanted, ids, after) for ids, (_, after) in zip(rows, cuts, strict=True)
        )
        spellings.pop((), None)
        if not spellings:
            for word in self._words(phrase):
                self._pieces_up_to(word, [len(word)])  # raises for one of them
        return [list(ids) for ids in spellings]

    def _pieces_of(self, wanted: bytes, ids: list[int], after: str) -> tuple[int, ...]:
        """The pieces of a text that write these bytes of it; none if no pieces write all of them.

        Args:
            after: the end of the text, behind the bytes.
        """
        if not self.write(ids).endswith(wanted + after.encode()):
            return ()
        places = list(accumulate((len(self.writes[i]) for i in ids), initial=0))
        end = places[-1] - len(after)
        pieces = zip(ids, pairwise(places), strict=True)
        return tuple(i for i, (s, e) in pieces if s < end and e > end - len(wanted))

    def _words(self, text: str) -> list[str]:
        """The words of a text that are cut into pieces separately, as the model reads them."""
        normalizer, cut = self._library.normalizer, self._library.pre_tokenizer
        text += GUARD  # or else a space at the end may be dropped
        normal = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in cut.pre_tokenize_str(normal[:-1])]

    def _pieces(self, word: str) -> list[int]:
        return [token.id for token in self._library.model.tokenize(word)] if word else []

    def _pieces_up_to(self, word: str, ends: list[int]) -> list[list[int]]:
        """The pieces of a word up to each of these places, without unknown ones."""
        known = [ids for end in ends if UNK not in (ids := self._pieces(word[:end]))]
        if not known:
            raise ConfigError(
                f"the model cannot write {self._bytes_of(word).decode().strip()!r}: no pieces of "
                "its vocabulary spell it. Use other words, or a model trained with tokenizer=bpe, "
                "which can write any text"
            )
        return known

    def _bytes_of(self, piece: str) -> bytes:
        """The bytes of what the model reads."""
        return piece.translate(self._table).encode("latin-1" if self._byte_level else "utf-8")

    def _may_grow(self, start: bytes) -> bool:
        """Is this the proper beginning of a piece?"""
        after = bisect_right(self._sorted, start)
        return after < len(self._sorted) and self._sorted[after].startswith(start)

    def _ranks_of(self, start: bytes) -> tuple[int, int]:
        """The ranks of the pieces that begin with this: of the first, and after the last."""
        first = bisect_left(self._sorted, start)
        size = len(start)
        return first, bisect_right(self._sorted, start, first, key=lambda written: written[:size])

    def _find_spellable(self, rest: bytes) -> list[bool]:
        """Can pieces spell the bytes from each place on, and then more?"""
        spellable = [True] * (len(rest) + 1)
        for start in reversed(range(len(rest))):
            ends = range(start + 1, min(len(rest), start + self._max_bytes) + 1)
            is_spelled = any(spellable[e] and rest[start:e] in self._ids for e in ends)
            spellable[start] = is_spelled or self._may_grow(rest[start:])
        return spellable


def byte_letters() -> dict[int, int]:
    """The byte of each letter (code point) of byte-level pieces, as in GPT-2: visible Latin-1
    characters stand for themselves, and for the other bytes, in order, those from U+0100 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in visible)
    return {b: b for b in visible} | {0x100 + i: b for i, b in enumerate(hidden)}


@cache
def is_word_character(character: str) -> bool:
    """Is this a character of words: a letter, its accent, a digit, a joiner or an underscore?

    So is U+FFFD, which stands for a part of a character.
    """
    return unicodedata.category(character)[0] in "LMN" or character in f"_\u200c\u200d{FOREIGN}"


def count_occurrences(phrase: str, text: str, anywhere: bool = False) -> int:
    """The number of times that a text contains a phrase as whole words, or anywhere."""
    count, start, step = 0, text.find(phrase), len(phrase) + 1
    while start >= 0:
        end = start + len(phrase)
        count += anywhere or not (is_inside_word(text, start) or is_inside_word(text, end))
        # A step of at most half of the phrase is its period: only as much has to be read again, so
        # that many overlapping occurrences take linear time.
        if 2 * step <= len(phrase) and text.startswith(phrase[-step:], end):
            start += step
        else:
            step, start = (next_start := text.find(phrase, start + 1)) - start, next_start
    return count


def is_inside_word(text: str, place: int) -> bool:
    """Do characters of words stand on both sides of a place?"""
    return 0 < place < len(text) and all(map(is_word_character, text[place - 1 : place + 1]))

"""The bytes of pieces, and the pieces that can continue a text, whatever its segmentation.

Every piece writes bytes. Completing a half-typed word and finding a phrase both work on bytes.
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
# Byte-level tokenizers split these in two, but not 're, 've and 'll, which they become with one
# more letter. Nothing else that follows a word changes the words before it.
CONTRACTIONS = [["'", letter] for letter in "rvl"]
# Contexts in which a phrase is encoded.
BEFORE = ("a ", "", "(", '"')
AFTER = ("", *'.,;:!?)"')
MAX_CACHED = 1000  # phrases


class Extension(NamedTuple):
    """The beginning of a text: the pieces `forced`, then any pieces that write `rest`."""

    forced: list[int]
    rest: bytes  # empty = nothing more to require


class Spelling:
    """The bytes of a tokenizer's pieces, and the texts that they spell.

    Bytes are the bytes of normalized text; see `bytes_of`. Unigram and word tokenizers put a space
    before the text: its first piece writes that, too, and decoding drops it. With other tokenizers
    the first piece is like any other.

    Args:
        tokenizer: tokenizer of any kind. Its pieces are read once, here.

    Attributes:
        writes: bytes of each id. Control symbols, tags and the unknown symbol write nothing.
        spellings: `_find_spellings` with a cache of recent phrases.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._library = library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        decoder = json.loads(library.decoder.__getstate__())
        steps = [step["type"] for step in decoder.get("decoders", [decoder])]
        if "BPEDecoder" in steps:
            raise ConfigError(
                "prefixes and required or forbidden words do not work with tokenizer=subword_nmt, "
                "whose pieces do not show what follows them: train with another tokenizer"
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

    def __reduce__(self) -> tuple[type["Spelling"], tuple[Tokenizer]]:
        # A cache cannot be pickled, so another process reads the pieces again.
        return Spelling, (self._tokenizer,)

    def bytes_of(self, text: str) -> bytes:
        """The bytes of a text as the tokenizer's normalizer writes it."""
        return b"".join(map(self._bytes_of, self._words(text)))

    def write(self, ids: list[int]) -> bytes:
        """The bytes of pieces."""
        return b"".join(self.writes[i] for i in ids)

    def extend(self, prefix: str) -> Extension:
        """The common beginning of all texts with a prefix.

        The pieces of every word but the last are forced: no later text changes them. The last word
        (for byte-level BPE and unigram with the space before it) may grow. If a piece ends inside
        it, the pieces before that place are the pieces of the word cut off there: this holds in
        byte pair encoding (Berglund and van der Merwe 2023, arXiv:2309.08715) and in a unigram
        model, where they are the best path to there. The remainder must then begin a longer piece.
        So pieces are forced if they are the same for all places where this is possible: all but the
        last one or few, in text without spaces too.

        A space at the end is part of `rest` if pieces begin with a space. So it closes a word,
        while a word without it may grow.

        Raises: ConfigError naming a word that no pieces can spell.
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
        """The fewest pieces that write these bytes, whatever their usual segmentation; of equally
        short lists, the one with the longest first piece. Empty if no pieces write them.
        """
        best: list[list[int] | None] = [None] * len(text) + [[]]  # for the bytes from each place on
        for start in reversed(range(len(text))):
            for end in range(min(len(text), start + self._max_bytes), start, -1):
                rest, ids = best[end], self._ids.get(text[start:end])
                shortest = best[start]
                if ids and rest is not None and (not shortest or len(rest) + 1 < len(shortest)):
                    best[start] = [ids[0], *rest]
        return best[0] or []

    def pieces_for(self, rest: bytes) -> Tensor:
        """Pieces that can continue a text whose remainder is `rest`.

        Returns: sorted ids, (n,) int64: pieces that begin with `rest`, and pieces that `rest`
            begins with, if pieces can spell what is left then. n > 0 for a `rest` from `extend`.
            EOS and other ids that write nothing are never among them.
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
        """The pieces that write any part of a text, or its end and more after it."""
        found: set[int] = set()
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + self._max_bytes) + 1):
                found.update(self._ids.get(text[start:end], ()))
        for start in range(max(0, len(text) - self._max_bytes), len(text)):
            longer = self._sorted[slice(*self._ranks_of(text[start:]))]
            found.update(i for written in longer for i in self._ids[written])
        return found

    def _find_spellings(self, phrase: str) -> list[list[int]]:
        """The different lists of pieces that spell a phrase within a sentence, at its beginning, in
        brackets or quotes, and before punctuation; the most usual list first.

        A piece that writes part of the phrase belongs to it even if it writes punctuation too
        ("house."). To count, the lists must begin and end at word boundaries.

        Raises: ConfigError for an empty phrase, and naming a word that no pieces can spell.
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
                self._pieces_up_to(word, [len(word)])  # raises ConfigError for one of them
        return [list(ids) for ids in spellings]

    def _pieces_of(self, wanted: bytes, ids: list[int], after: str) -> tuple[int, ...]:
        """The pieces among `ids` that write the wanted bytes; empty if they do not write them all.

        Args:
            after: end of the text after the wanted bytes.
        """
        if not self.write(ids).endswith(wanted + after.encode()):
            return ()
        places = list(accumulate((len(self.writes[i]) for i in ids), initial=0))
        end = places[-1] - len(after)
        pieces = zip(ids, pairwise(places), strict=True)
        return tuple(i for i, (s, e) in pieces if s < end and e > end - len(wanted))

    def _words(self, text: str) -> list[str]:
        """The words that a text is split into before it is cut into pieces, normalized."""
        normalizer, cut = self._library.normalizer, self._library.pre_tokenizer
        text += GUARD  # or else a space at the end may be dropped
        normal = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in cut.pre_tokenize_str(normal[:-1])]

    def _pieces(self, word: str) -> list[int]:
        return [token.id for token in self._library.model.tokenize(word)] if word else []

    def _pieces_up_to(self, word: str, ends: list[int]) -> list[list[int]]:
        """The pieces of a word cut off at each of these places, except where some are unknown."""
        known = [ids for end in ends if UNK not in (ids := self._pieces(word[:end]))]
        if not known:
            raise ConfigError(
                f"the model cannot write {self._bytes_of(word).decode().strip()!r}: no pieces of "
                "its vocabulary spell it. Use other words, or a model trained with tokenizer=bpe, "
                "which can write any text"
            )
        return known

    def _bytes_of(self, piece: str) -> bytes:
        """The bytes of a piece, or of normalized text."""
        return piece.translate(self._table).encode("latin-1" if self._byte_level else "utf-8")

    def _may_grow(self, start: bytes) -> bool:
        """True if a longer piece begins with this."""
        after = bisect_right(self._sorted, start)
        return after < len(self._sorted) and self._sorted[after].startswith(start)

    def _ranks_of(self, start: bytes) -> tuple[int, int]:
        """The ranks of the pieces that begin with this: the first, and one past the last."""
        first = bisect_left(self._sorted, start)
        size = len(start)
        return first, bisect_right(self._sorted, start, first, key=lambda written: written[:size])

    def _find_spellable(self, rest: bytes) -> list[bool]:
        """For each place, True if pieces can spell the bytes from there on, and perhaps more."""
        spellable = [True] * (len(rest) + 1)
        for start in reversed(range(len(rest))):
            ends = range(start + 1, min(len(rest), start + self._max_bytes) + 1)
            is_spelled = any(spellable[e] and rest[start:e] in self._ids for e in ends)
            spellable[start] = is_spelled or self._may_grow(rest[start:])
        return spellable


def byte_letters() -> dict[int, int]:
    """The byte of each letter (code point) of byte-level pieces, as in GPT-2: visible Latin-1
    characters represent themselves, and characters from U+0100 on the other bytes, in order.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in visible)
    return {b: b for b in visible} | {0x100 + i: b for i, b in enumerate(hidden)}


@cache
def is_word_character(character: str) -> bool:
    """True for a character of words: a letter, accent, digit, joiner or underscore.

    U+FFFD, which replaces part of a character, counts as one.
    """
    return unicodedata.category(character)[0] in "LMN" or character in f"_\u200c\u200d{FOREIGN}"


def count_occurrences(phrase: str, text: str, anywhere: bool = False) -> int:
    """The number of times that a text contains a phrase as whole words, or anywhere."""
    count, start, step = 0, text.find(phrase), len(phrase) + 1
    while start >= 0:
        end = start + len(phrase)
        count += anywhere or not (is_inside_word(text, start) or is_inside_word(text, end))
        # A step of at most half of the phrase is its period: only that much has to be read again,
        # so many overlapping occurrences take linear time.
        if 2 * step <= len(phrase) and text.startswith(phrase[-step:], end):
            start += step
        else:
            step, start = (next_start := text.find(phrase, start + 1)) - start, next_start
    return count


def is_inside_word(text: str, place: int) -> bool:
    """True if there are word characters on both sides of a place."""
    return 0 < place < len(text) and all(map(is_word_character, text[place - 1 : place + 1]))

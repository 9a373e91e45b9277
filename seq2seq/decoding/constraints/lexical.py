"""An automaton over pieces that enforces a beginning, required phrases and banned phrases."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.decoding.constraints.guide import NextTokens
from seq2seq.decoding.constraints.spelling import (
    Extension,
    Spelling,
    count_occurrences,
    is_word_character,
)
from seq2seq.text.tokenization.tokenizer import Tokenizer

Matches = frozenset[tuple[int, int]]  # phrase numbers, and numbers of characters matched


class Term(NamedTuple):
    """Alternative phrases, and how often a text may contain them in total. Occurrences may overlap,
    even with occurrences of other terms.
    """

    phrases: tuple[str, ...]  # alternatives
    minimum: int = 1
    maximum: float = math.inf
    anywhere: bool = False  # True = within words too; False = as whole words only


class Constraint(NamedTuple):
    """The requirements for the translation of a sentence."""

    terms: tuple[Term, ...] = ()
    beginning: bytes = b""  # first bytes of the text, forced pieces included
    spaceless: bool | None = None  # as for `Vocabulary`; None = as the vocabulary says

    @property
    def requires(self) -> bool:
        """True if the text must contain something."""
        return any(term.minimum for term in self.terms)


class State(NamedTuple):
    """Everything about the pieces read so far that affects what may follow."""

    rest: bytes  # bytes that must come next
    counts: tuple[int, ...]  # certain occurrences of each term
    matches: Matches = frozenset()
    last: str = " "  # the last character, or another of its kind
    tail: bytes = b""  # first bytes of an incomplete character


class Vocabulary:
    """Tables of the target language that all guides share, computed when first needed.

    Args:
        tokenizer: tokenizer of the target.
        spaceless: True if words may begin and end anywhere, as in a language without spaces.
    """

    def __init__(self, tokenizer: Tokenizer, spaceless: bool):
        self.tokenizer, self.spaceless = tokenizer, spaceless

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.tokenizer)

    @cached_property
    def _other(self) -> "Vocabulary":
        return Vocabulary(self.tokenizer, not self.spaceless)

    def in_language(self, spaceless: bool | None) -> "Vocabulary":
        """The tables of another language with the same pieces; None = of the same language."""
        return self if spaceless in (None, self.spaceless) else self._other

    @cached_property
    def texts(self) -> list[str]:
        """The whole characters that each piece writes, if it begins with a whole character."""
        return [decode_partial(written)[0] for written in self.spelling.writes]

    @cached_property
    def inner_starts(self) -> list[frozenset[str]]:
        """The characters of each piece, except its first, with which a phrase may begin."""
        return [
            frozenset(c for before, c in pairwise(text) if self.is_boundary(before, c))
            for text in self.texts
        ]

    @cached_property
    def word_ending(self) -> list[int]:
        """The pieces that end the word before them."""
        texts = (written.decode("utf-8", "replace") for written in self.spelling.writes)
        return [i for i, text in enumerate(texts) if not (text and self.is_word(text[0]))]

    @cached_property
    def continuing(self) -> list[int]:
        """The pieces that begin in the middle of a character."""
        writes = enumerate(self.spelling.writes)
        return [i for i, written in writes if b"\x80" <= written[:1] < b"\xc0"]

    @cached_property
    def endings(self) -> list[str]:
        """The kind of each piece's last character; empty unless it writes whole characters."""
        pieces = zip(self.texts, self.spelling.writes, strict=True)
        return [self.kind(text[-1]) if text and text.encode() == w else "" for text, w in pieces]

    def kind(self, character: str) -> str:
        """A representative of a character's kind: in a word, before a word, or other."""
        return "a" if self.is_word(character) else " " if begins_word(character) else "."

    def normalize(self, text: str) -> str:
        """A text in the form in which pieces write it."""
        return self.spelling.bytes_of(text).decode("utf-8", "replace").strip(" ")

    def counts(self, terms: Sequence[Term], text: str) -> list[int]:
        """The number of occurrences of each term in a text, after normalizing it."""
        text = self.normalize(text) if terms else text
        return [
            sum(count_occurrences(p, text, self.spaceless or term.anywhere) for p in term.phrases)
            for term in terms
        ]

    def extend(self, prefix: str, max_length: int | None = None) -> Extension:
        """`Spelling.extend` with a limit of length; a prefix of white space alone counts as empty.

        Args:
            max_length: maximum pieces that the model can write, the end included; None = no limit.

        Raises: ConfigError if the model cannot write the prefix and continue it.
        """
        if not prefix.strip():
            return Extension([], b"")
        ids = self.tokenizer.encode_batch([prefix])[0]
        if max_length is not None and len(ids) + 1 >= max_length:
            raise ConfigError(
                f"the prefix has {len(ids)} pieces, but this model can write at most "
                f"{max_length}: give fewer than {max_length - 1}"
            )
        return self.spelling.extend(prefix)

    def split_spellable(self, terms: Sequence[Term]) -> tuple[list[Term], list[str]]:
        """Split terms into those that pieces can satisfy, and the first phrases of the others.

        Phrases are normalized. Alternatives are left out if pieces cannot spell them, or if they
        are required and contain a banned phrase.
        """
        spellable, others = [], []
        banned = [self.normalize(t.phrases[0]) for t in terms if t.maximum == 0]
        for term in terms:
            excluded = banned if term.minimum else []
            normalized = dict.fromkeys(filter(None, map(self.normalize, term.phrases)))
            phrases = tuple(p for p in normalized if self._can_spell(p, excluded))
            if phrases:
                spellable.append(term._replace(phrases=phrases))
            elif term.minimum:
                others.append(term.phrases[0])
        return spellable, others

    def _can_spell(self, phrase: str, banned: Sequence[str]) -> bool:
        """True if pieces can spell a phrase and it contains no banned phrase."""
        try:
            is_spelled = bool(self.spelling.spellings(phrase))
        except ConfigError:
            return False
        return is_spelled and not any(
            count_occurrences(ban, phrase, self.spaceless) for ban in banned
        )

    def is_word(self, character: str) -> bool:
        """True if this is a word character in a language with spaces between words."""
        return is_word_character(character) and not self.spaceless

    def is_boundary(self, before: str, after: str) -> bool:
        """True if there is a word boundary between two characters."""
        return not (self.is_word(before) and self.is_word(after))

    def guide(self, constraint: Constraint) -> "LexicalGuide":
        """A guide for a constraint. Raises: ConfigError if pieces cannot spell a phrase."""
        return LexicalGuide(self.in_language(constraint.spaceless), constraint)


class LexicalGuide:
    """Makes hypotheses satisfy a constraint; see `Guide` for the methods.

    Transitions are computed when first needed, and cached.
    """

    def __init__(self, vocabulary: Vocabulary, constraint: Constraint):
        self.vocabulary, self.spelling = vocabulary, vocabulary.spelling
        self.terms = constraint.terms
        self.requires = constraint.requires
        self.phrases = [(phrase, i) for i, term in enumerate(self.terms) for phrase in term.phrases]
        self._spellings = [PhraseSpelling(self.spelling, phrase) for phrase, _ in self.phrases]
        self._sizes = [0] * len(self.terms)  # pieces of the longest phrase of each term
        self._starting: dict[str, list[int]] = {}  # phrases by their first characters
        for p, (phrase, term) in enumerate(self.phrases):
            self._sizes[term] = max(self._sizes[term], self._spellings[p].size)
            self._starting.setdefault(phrase[0], []).append(p)
        # First characters of phrases that may begin within a word.
        self._anywhere = {phrase[0] for phrase, i in self.phrases if self.terms[i].anywhere}
        self._containing: dict[int, list[int]] = {}
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []  # by number
        self._next_states: list[dict[int | str, int]] = []  # by token, or by `_ending`
        self._next_tokens: dict[int, NextTokens] = {}
        self._progress: list[int] = []
        self._number(State(constraint.beginning, (0,) * len(self.terms)))

    def next_state(self, state: int, token: int) -> int:
        known = self._next_states[state]
        if token not in known:
            key = self._ending(state, token) or token
            if key not in known:
                known[key] = self._number(self._read(self._states[state], token))
            known[token] = known[key]
        return known[token]

    def next_tokens(self, state: int) -> NextTokens:
        if state not in self._next_tokens:
            content = self._states[state]
            self._next_tokens[state] = NextTokens(
                torch.tensor(sorted(set(self._find_banned(content))), dtype=torch.int64),
                self.spelling.pieces_for(content.rest) if content.rest else None,
                sorted(set(self._find_required(content))),
            )
        return self._next_tokens[state]

    def pieces(self) -> set[int]:
        """The pieces in any spelling of the phrases, and pieces that may write the beginning."""
        pieces = {i for each in self._spellings for ids in each.after.values() for i in ids}
        return pieces | self.spelling.pieces_within(self._states[0].rest)

    def is_satisfied(self, state: int) -> bool:
        content = self._states[state]
        terms = zip(self.terms, content.counts, strict=True)
        return not content.rest and all(t.minimum <= n and t.maximum == math.inf for t, n in terms)

    def progress(self, state: int) -> int:
        return self._progress[state]

    def _ending(self, state: int, token: int) -> str | None:
        """The kind of a piece's last character, if the piece touches no phrase (most do not). All
        such pieces with the same kind lead from a state to the same next state. None if the piece
        or the state may be special.
        """
        content, text = self._states[state], self.vocabulary.texts[token]
        starting = self._starting.keys()
        if content.matches or content.rest or content.tail or text[:1] in starting:
            return None
        is_within = self.vocabulary.inner_starts[token].isdisjoint(starting)
        is_within = is_within and self._anywhere.isdisjoint(text)
        return self.vocabulary.endings[token] if is_within else None

    def _number(self, state: State) -> int:
        """The number of a state; a new state gets the next number."""
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
            self._next_states.append({})
            self._progress.append(self._progress_of(state) if self.requires else 0)
        return self._numbers[state]

    def _read(self, state: State, token: int) -> State:
        """The state after one more piece."""
        written, inner_starts = self.spelling.writes[token], self.vocabulary.inner_starts
        text, tail = self.vocabulary.texts[token], b""
        last = state.last
        if state.tail or not written.isascii():
            text, tail = decode_partial(state.tail + written)
        counts, matches = list(state.counts), state.matches
        starting = self._starting.keys()
        starts = text[:1] in starting and self.vocabulary.is_boundary(last, text[0])
        starts = starts or not starting.isdisjoint(inner_starts[token])
        if matches or starts or state.tail or not self._anywhere.isdisjoint(text):
            for character in text:
                matches = self._match(character, matches, last, counts)
                last = character
        elif text:
            last = text[-1]
        last = self.vocabulary.kind(last)  # so that equivalent states are equal
        return State(state.rest[len(written) :], tuple(counts), matches, last, tail)

    def _match(self, character: str, matches: Matches, last: str, counts: list[int]) -> Matches:
        """The matches after one more character. Adds complete ones to `counts`."""
        is_word = self.vocabulary.is_word(character)
        longer = set()
        for p, matched in matches:
            phrase, term = self.phrases[p]
            if matched == len(phrase):  # complete, if its word ends here
                counts[term] += not is_word
            elif phrase[matched] == character:
                longer.add((p, matched + 1))
        starts_word = self.vocabulary.is_boundary(last, character)
        for p in self._starting.get(character, ()):
            if starts_word or self.terms[self.phrases[p][1]].anywhere:
                longer.add((p, 1))
        for p, matched in tuple(longer):
            phrase, term = self.phrases[p]
            if matched == len(phrase) and (self.terms[term].anywhere or not is_word):
                counts[term] += 1
                longer.remove((p, matched))
        return frozenset(longer)

    def _progress_of(self, state: State) -> int:
        """The number of usual pieces of the required phrases that are present."""
        partial = [0] * len(self.terms)
        begun = {(p, 0) for p in range(len(self.phrases)) if state.tail}
        for p, matched in state.matches | begun:
            phrase, term = self.phrases[p]
            if phrase[matched:].encode().startswith(state.tail):
                pieces = self._spellings[p].pieces(matched, len(state.tail))
                partial[term] = max(partial[term], pieces)
        done = 0
        for i, count in enumerate(self._counts_at_end(state)):
            minimum = self.terms[i].minimum
            done += min(count, minimum) * self._sizes[i] + (partial[i] if count < minimum else 0)
        return done

    def _counts_at_end(self, state: State) -> list[int]:
        """The counts if the text ends here."""
        counts = list(state.counts)
        for p, matched in state.matches:
            phrase, term = self.phrases[p]
            counts[term] += matched == len(phrase)
        return counts

    def _find_banned(self, state: State) -> Iterator[int]:
        """The tokens that would violate the constraint, possibly with duplicates."""
        at_end = zip(self.terms, self._counts_at_end(state), strict=True)
        if state.rest or any(not t.minimum <= n <= t.maximum for t, n in at_end):
            yield EOS
        full = [n >= t.maximum for t, n in zip(self.terms, state.counts, strict=True)]
        for p, (_, term) in enumerate(self.phrases):
            if full[term]:
                yield from self._exceeding(state, self._pieces_containing(p))
        for p, matched in state.matches:
            phrase, term = self.phrases[p]
            if full[term] and matched == len(phrase):
                yield from self.vocabulary.word_ending
                if state.tail:  # the incomplete character may end the word
                    yield from self._exceeding(state, self.vocabulary.continuing)
            elif full[term]:
                rest = phrase[matched:].encode()[len(state.tail) :]
                yield from self._exceeding(state, self.spelling.pieces_for(rest).tolist())

    def _pieces_containing(self, p: int) -> list[int]:
        """The pieces that contain a whole phrase."""
        if p not in self._containing:
            phrase = self.phrases[p][0]
            texts = enumerate(self.vocabulary.texts)
            self._containing[p] = [i for i, text in texts if phrase in text]
        return self._containing[p]

    def _exceeding(self, state: State, tokens: list[int]) -> Iterator[int]:
        """The given pieces after which a term would occur too often."""
        for token in tokens:
            counts = self._read(state, token).counts
            terms = zip(self.terms, state.counts, counts, strict=True)
            if any(after > max(before, term.maximum) for term, before, after in terms):
                yield token

    def _find_required(self, state: State) -> Iterator[int]:
        """The tokens that begin or continue a phrase that is still missing."""
        counts = self._counts_at_end(state)
        for p, matched in state.matches | {(p, 0) for p in range(len(self.phrases))}:
            term = self.phrases[p][1]
            if counts[term] < self.terms[term].minimum:
                begins = matched or state.last == " " or self.vocabulary.spaceless
                for token in self._spellings[p].after.get((matched, state.tail), ()):
                    # Even a phrase of punctuation must not directly follow a word.
                    if begins or self.vocabulary.texts[token][:1].isspace():
                        yield token


class PhraseSpelling:
    """The spellings of a phrase in pieces, the usual one first.

    Attributes:
        size: number of pieces in the usual spelling.
        after: next pieces in any spelling, by the number of characters of the phrase that are
            written and the bytes of the next character that are.
    """

    def __init__(self, spelling: Spelling, phrase: str):
        self.after: dict[tuple[int, bytes], list[int]] = {}
        # Characters, and bytes of the next character, written after each of the usual pieces.
        self._places: list[tuple[int, int]] = []
        for ids in spelling.spellings(phrase):
            whole = decode_partial(spelling.write(ids))[0]
            start, text, tail = whole.find(phrase), "", b""
            places: list[tuple[int, int]] = []
            for i in ids:
                written = max(0, len(text) - start)
                self.after.setdefault((written, tail), []).append(i)
                more, tail = decode_partial(tail + spelling.writes[i])
                text += more
                written = min(len(phrase), max(0, len(text) - start))
                places.append((written, len(tail) if start <= len(text) else 0))
            self._places = self._places or places
        self.size = len(self._places)

    def pieces(self, chars: int, extra: int) -> int:
        """Number of usual pieces completed by `chars` characters and `extra` bytes of the next."""
        return sum(place <= (chars, extra) for place in self._places) if chars or extra else 0


def begins_word(last: str) -> bool:
    """True if words usually begin right after this character, without a further space."""
    return last.isspace() or unicodedata.category(last) in ("Ps", "Pi", "Pd") or last in "\"'/¿¡"


def decode_partial(data: bytes) -> tuple[str, bytes]:
    """The complete characters of UTF-8 data, and the bytes of an incomplete last one."""
    for cut in range(min(4, len(data) + 1)):
        end = len(data) - cut
        try:
            return data[:end].decode(), data[end:]
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace"), b""

"""What a text must begin with, must contain and must not contain: an automaton over its pieces."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from seq2seq.data.spelling import Boundaries, Spelling, in_word
from seq2seq.symbols import EOS


class Term(NamedTuple):
    """Phrases of which a text contains a certain number, as whole words.

    Occurrences may overlap, also with those of other terms.
    """

    phrases: tuple[str, ...]  # alternatives
    minimum: int = 1
    maximum: int | None = None  # None = any number


class Constraint(NamedTuple):
    """What is required of the text of a sentence's translation."""

    terms: tuple[Term, ...] = ()
    rest: bytes = b""  # what the text begins with, after the pieces that are forced
    spaceless: bool = False  # may words begin and end anywhere, as in a language without spaces?


class Reading(NamedTuple):
    """What matters of the pieces that were read."""

    rest: bytes  # that the text must go on with
    counts: tuple[int, ...]  # occurrences of each term that are whole words for certain
    matches: frozenset[tuple[int, int]] = frozenset()  # phrases, and their characters matched
    after_word: bool = False  # is the last character one of words?
    tail: bytes = b""  # of a character that is not complete


class LexicalGuide:
    """Makes hypotheses obey a constraint; see `decoding.guides.Guide` for the methods.

    Transitions are computed when they are asked for, and remembered.

    Args:
        spelling: of the pieces of the target.
        boundaries: where its pieces begin and end words.
    """

    def __init__(self, spelling: Spelling, boundaries: Boundaries, constraint: Constraint):
        self.spelling, self.boundaries, self.constraint = spelling, boundaries, constraint
        self.terms = constraint.terms
        self.requires = any(term.minimum for term in self.terms)
        self.phrases = [(phrase, i) for i, term in enumerate(self.terms) for phrase in term.phrases]
        self._ids: dict[Reading, int] = {}  # of states
        self._readings: list[Reading] = []
        self._after: list[dict[int, int]] = []
        self._answers: list[dict[str, Sequence[int]]] = []
        self._state(Reading(constraint.rest, (0,) * len(self.terms)))

    def after(self, state: int, token: int) -> int:
        known = self._after[state]
        if token not in known:
            known[token] = self._state(self._read(self._readings[state], token))
        return known[token]

    def forbidden(self, state: int) -> Sequence[int]:
        return self._remembered("forbidden", state)

    def wanted(self, state: int) -> Sequence[int]:
        return self._remembered("wanted", state)

    def allowed(self, state: int) -> Sequence[int] | None:
        rest = self._readings[state].rest
        return self.spelling.allowed(rest).tolist() if rest else None

    def progress(self, state: int) -> int:
        if not self.requires:
            return 0
        reading = self._readings[state]
        best = [0] * len(self.terms)
        for phrase, matched in reading.matches:
            term = self.phrases[phrase][1]
            best[term] = max(best[term], self._cuts[phrase].pieces(matched))
        counts = self._counts_at_end(reading)
        return sum(
            min(count, term.minimum) * size + (partial if count < term.minimum else 0)
            for count, term, size, partial in zip(counts, self.terms, self._sizes, best, strict=True)
        )

    def _state(self, reading: Reading) -> int:
        if reading not in self._ids:
            self._ids[reading] = len(self._readings)
            self._readings.append(reading)
            self._after.append({})
            self._answers.append({})
        return self._ids[reading]

    def _remembered(self, what: str, state: int) -> Sequence[int]:
        answers = self._answers[state]
        if what not in answers:
            answers[what] = sorted(set(getattr(self, f"_{what}")(self._readings[state])))
        return answers[what]

    def _read(self, reading: Reading, token: int) -> Reading:
        written = self.spelling.writes[token]
        text, tail = decoded(reading.tail + written)
        counts, matches, after_word = list(reading.counts), set(reading.matches), reading.after_word
        for character in text:
            is_word = in_word(character) and not self.constraint.spaceless
            alive = {(p, 0) for p in range(len(self.phrases)) if self._may_begin(p, after_word)}
            before, matches = matches | alive, set()
            for p, matched in before:
                phrase, term = self.phrases[p]
                if matched == len(phrase):  # it waited for the end of its word
                    counts[term] += not is_word
                elif phrase[matched] == character:
                    if matched + 1 == len(phrase) and not self._waits(p):
                        counts[term] += 1
                    else:
                        matches.add((p, matched + 1))
            after_word = is_word
        rest = reading.rest[len(written) :]
        return Reading(rest, tuple(counts), frozenset(matches), after_word, tail)

    def _may_begin(self, p: int, after_word: bool) -> bool:
        return not (after_word and in_word(self.phrases[p][0][0]))

    def _waits(self, p: int) -> bool:
        """Does a phrase end in a word, which may go on?"""
        return in_word(self.phrases[p][0][-1]) and not self.constraint.spaceless

    def _counts_at_end(self, reading: Reading) -> list[int]:
        """The counts if the text ends here."""
        counts = list(reading.counts)
        for p, matched in reading.matches:
            phrase, term = self.phrases[p]
            counts[term] += matched == len(phrase)
        return counts

    def _forbidden(self, reading: Reading) -> Iterator[int]:
        at_end = zip(self.terms, self._counts_at_end(reading), strict=True)
        if reading.rest or any(not allows(term, count) for term, count in at_end):
            yield EOS
        full = [t.maximum is not None and n >= t.maximum for t, n in zip(self.terms, reading.counts, strict=True)]
        for p, (phrase, term) in enumerate(self.phrases):
            if full[term]:
                yield from (i for i in self._whole[p] if self._exceeds(reading, i))
        for p, matched in reading.matches:
            phrase, term = self.phrases[p]
            if full[term] and matched == len(phrase):
                yield from self._beginning
            elif full[term]:
                rest = phrase[matched:].encode()[len(reading.tail):]
                yield from (i for i in self.spelling.allowed(rest).tolist() if self._exceeds(reading, i))

    def _exceeds(self, reading: Reading, token: int) -> bool:
        counts = self._read(reading, token).counts
        return any(
            term.maximum is not None and after > max(before, term.maximum)
            for term, before, after in zip(self.terms, reading.counts, counts, strict=True)
        )

    def _wanted(self, reading: Reading) -> Iterator[int]:
        counts = self._counts_at_end(reading)
        matches = reading.matches | {(p, 0) for p in range(len(self.phrases))}
        for p, matched in matches:
            term = self.phrases[p][1]
            if counts[term] < self.terms[term].minimum:
                for token in self._cuts[p].after(matched):
                    if matched or self._may_begin(p, reading.after_word) or self.boundaries.begins[token]:
                        yield token

"""A text to translate, and what is asked of its translation."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from seq2seq.constraints.lexical import Term
from seq2seq.constraints.spelling import occurrences
from seq2seq.data.text import read_lines
from seq2seq.environment import limit_time
from seq2seq.errors import DataError, Seq2SeqError

# What is no language: {name}, %s and %(x)d, addresses of pages and mail, tags. Linear time: only
# the 64 characters before an @ are read from several places.
PLACEHOLDERS = (
    r"\{[^{}\s]*+\}|%(?:\(\w++\))?+[-+#0]*+\d*+(?:\.\d++)?+[sdifgrxX]\b|"
    r"https?://[^\s<>\"]*[\w/]|"
    r"(?:(?<![\w.+-])[\w.+-]++|[\w.+-]{1,64}+)@[\w-]++(?:\.[\w-]++)++|</?[A-Za-z][^<>]*+>"
)

SECONDS = 1.0  # of computing, in which a pattern must have read a text
# Of the phrases that a search must copy from a sentence, or that a client asks for: each is encoded
# in all contexts.
MOST_KEPT, MOST_CHARACTERS = 50, 2_000


class TextRequest(NamedTuple):
    """A text, and what its translation must be like."""

    text: str
    prefix: str = ""  # what it begins with
    must: tuple[tuple[str, ...], ...] = ()  # of each group it contains one phrase
    must_not: tuple[str, ...] = ()  # phrases that it does not contain
    draw_id: int | None = None  # random draws depend on it; None = on how many requests came before

    @classmethod
    def from_json(cls, line: str) -> "TextRequest":
        """The request that a JSON object describes: `text`, and what is asked of its translation.

        Raises: DataError for anything else.
        """
        try:
            entry = json.loads(line)
            json.dumps(entry, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:  # halves of characters, too
            raise DataError(f"not JSON ({error}): {EXAMPLE}") from None
        if not isinstance(entry, dict) or "text" not in entry:
            raise DataError(f"not an object with a text: {EXAMPLE}")
        known = cls._fields[:-1]
        if unknown := sorted(entry.keys() - set(known)):
            raise DataError(f"unknown key {unknown[0]!r}. Known: {', '.join(known)}")
        return cls(**entry).validate()

    def validate(self) -> "TextRequest":
        """The same with tuples for lists. Raises: DataError for other types than those above."""
        if not isinstance(self.text, str) or not isinstance(self.prefix, str):
            raise DataError(f"text and prefix should be texts: {EXAMPLE}")
        if not isinstance(self.must, list | tuple):
            raise DataError(f"must should be a list: {EXAMPLE}")
        must = [[each] if isinstance(each, str) else each for each in self.must]
        for phrases in (*must, self.must_not):
            listed = isinstance(phrases, list | tuple)
            if not listed or not all(isinstance(p, str) and p.strip() for p in phrases):
                raise DataError(f"must and must_not should be lists of words: {EXAMPLE}")
        if not all(must):
            raise DataError(f"a group of must is empty: {EXAMPLE}")
        return self._replace(must=tuple(map(tuple, must)), must_not=tuple(self.must_not))


EXAMPLE = (
    'for example {"text": "...", "must": [["house", "houses"], ["green"]], "must_not": ["garden"]}'
)


@dataclass(frozen=True)
class Rules:
    """What is asked of all translations, where their source gives cause.

    Attributes:
        glossary: terms of the source, and for each the phrases of which the translation has one.
        same_case: does a term of the glossary occur only in its own case?
        keep: matches of this pattern are copied to the translation as they are; None = nothing.
        spaceless: has the source language no spaces between words?
    """

    glossary: Sequence[tuple[str, tuple[str, ...]]] = ()
    same_case: bool = True
    keep: re.Pattern[str] | None = None
    spaceless: bool = False

    def terms(self, request: TextRequest) -> list[Term]:
        """What the translation of a text must and must not contain. Raises: as `checked`."""
        request = request.validate()
        text = request.text if self.same_case else request.text.casefold()
        wanted = Counter(request.must)
        for term, phrases in self.glossary:
            if occurrences(term if self.same_case else term.casefold(), text, self.spaceless):
                wanted[phrases] = max(wanted[phrases], 1)
        kept, _ = self.copies(request.text)
        return [
            *(Term(phrases, count) for phrases, count in wanted.items()),
            *(Term((phrase,), 0, 0) for phrase in request.must_not),
            *(term for phrase in kept for term in copy_terms(phrase, request.text)),
        ]

    def placeholders(self, text: str) -> Counter[str]:
        """What of a text is copied as it is.

        Raises: Seq2SeqError if the pattern takes too long, see `limited_time`.
        """
        if self.keep is None:
            return Counter()
        try:
            with limit_time(SECONDS):
                found = (match[0].strip() for match in self.keep.finditer(text))
                return Counter(phrase for phrase in found if phrase)
        except TimeoutError:
            raise Seq2SeqError(
                f"--keep {self.keep.pattern!r} takes more than {SECONDS:g} s for {text[:40]!r}..., "
                f"{len(text):,} characters: it tries too many ways to match. Repeat nothing that "
                "repeats, as (a+)+ does, or let it give nothing back: (?:a+)++"
            ) from None

    def copies(self, text: str) -> tuple[list[str], dict[str, int]]:
        """The phrases of `kept` that a search must copy, the first ones; and the others, with their
        counts.
        """
        required: list[str] = []
        others: dict[str, int] = {}
        room = MOST_CHARACTERS
        for phrase, count in self.placeholders(text).items():
            if len(required) < MOST_KEPT and len(phrase) <= room:
                required.append(phrase)
                room -= len(phrase)
            else:
                others[phrase] = count
        return required, others


def copy_terms(phrase: str, text: str) -> list[Term]:
    """What contains a phrase as often as a text does: as whole words, and elsewhere."""
    whole, everywhere = occurrences(phrase, text), occurrences(phrase, text, True)
    at_most = Term((phrase,), 0 if whole else everywhere, everywhere, anywhere=True)
    return [Term((phrase,), whole), at_most] if whole else [at_most]


def read_glossary(path: Path, same_case: bool = True) -> list[tuple[str, tuple[str, ...]]]:
    """The terms of a file: a term of the source and the phrases of the target, with tabs between.

    Terms and phrases are literal: there are no escapes, quotes or comments. Phrases of several
    lines with one term are alternatives, as on one line.

    Args:
        same_case: are `Dog` and `dog` two terms?

    Raises: DataError for a line without a phrase.
    """
    terms: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line_no, line in enumerate(read_lines(path), start=1):
        term, *phrases = (field.strip() for field in line.split("\t"))
        if term and all(phrases) and phrases:
            key = term if same_case else term.casefold()
            first, known = terms.get(key, (term, ()))
            terms[key] = first, tuple(dict.fromkeys([*known, *phrases]))
        elif line.strip():
            raise DataError(
                f"{path}, line {line_no}: {line!r} should be a term of the source, a tab, and a "
                "phrase of the target; more tabs and phrases for alternatives"
            )
    return list(terms.values())

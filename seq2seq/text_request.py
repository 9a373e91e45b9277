"""A text to translate, and what is asked of its translation."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.data.lexical import Term
from seq2seq.data.spelling import occurrences
from seq2seq.data.text import read_lines
from seq2seq.errors import DataError

# What is no language: {name}, %s and %(x)d, addresses of pages and mail, tags.
PLACEHOLDERS = (
    r"\{[^{}\s]*\}|%(?:\(\w+\))?[-+#0]*\d*(?:\.\d+)?[sdifgrxX]\b|https?://[^\s<>\"]*[\w/]|"
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|</?[A-Za-z][^<>]*>"
)


class TextRequest(NamedTuple):
    """A text, and what its translation must be like."""

    text: str
    prefix: str = ""  # what it begins with
    must: tuple[tuple[str, ...], ...] = ()  # of each group it contains one phrase
    must_not: tuple[str, ...] = ()  # phrases that it does not contain

    @classmethod
    def from_json(cls, line: str) -> "TextRequest":
        """The request that a JSON object describes: `text`, and what is asked of its translation.

        Raises: DataError for anything else.
        """
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON ({error}): {EXAMPLE}") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise DataError(f"not an object with a text: {EXAMPLE}")
        if unknown := sorted(entry.keys() - set(cls._fields)):
            raise DataError(f"unknown key {unknown[0]!r}. Known: {', '.join(cls._fields)}")
        if not isinstance(entry.get("prefix", ""), str):
            raise DataError(f"prefix should be a text: {EXAMPLE}")
        must = [[each] if isinstance(each, str) else each for each in listed(entry, "must")]
        must_not = listed(entry, "must_not")
        for phrases in (*must, must_not):
            if not isinstance(phrases, list) or not all(is_phrase(p) for p in phrases):
                raise DataError(f"must and must_not should be lists of words: {EXAMPLE}")
        if not all(must):
            raise DataError(f"a group of must is empty: {EXAMPLE}")
        groups = tuple(map(tuple, must))
        return cls(entry["text"], entry.get("prefix", ""), groups, tuple(must_not))


EXAMPLE = (
    'for example {"text": "...", "must": [["house", "houses"], ["green"]], "must_not": ["garden"]}'
)


def listed(entry: dict[str, Any], name: str) -> list[Any]:
    value = entry.get(name, [])
    if not isinstance(value, list):
        raise DataError(f"{name} should be a list: {EXAMPLE}")
    return value


def is_phrase(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


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
        """What the translation of a text must and must not contain."""
        text = request.text if self.same_case else request.text.casefold()
        wanted = Counter(request.must)
        for term, phrases in self.glossary:
            if occurrences(term if self.same_case else term.casefold(), text, self.spaceless):
                wanted[phrases] += 1
        kept = self.kept(request.text)
        return [
            *(Term(phrases, count) for phrases, count in wanted.items()),
            *(Term((phrase,), 0, 0) for phrase in request.must_not),
            *(term for phrase in kept for term in copied(phrase, request.text)),
        ]

    def kept(self, text: str) -> Counter[str]:
        """What of a text is copied as it is."""
        found = self.keep.finditer(text) if self.keep else ()
        return Counter(match[0] for match in found if match[0].strip())


def copied(phrase: str, text: str) -> list[Term]:
    """What contains a phrase as often as a text does: as whole words, and elsewhere."""
    whole, everywhere = occurrences(phrase, text), occurrences(phrase, text, True)
    at_most = Term((phrase,), 0 if whole else everywhere, everywhere, anywhere=True)
    return [Term((phrase,), whole), at_most] if whole else [at_most]


def read_glossary(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """The terms of a file: a term of the source and the phrases of the target, with tabs between.

    Raises: DataError for a line without a phrase.
    """
    terms = []
    for line_no, line in enumerate(read_lines(path), start=1):
        term, *phrases = (field.strip() for field in line.split("\t"))
        if term and all(phrases) and phrases:
            terms.append((term, tuple(phrases)))
        elif line.strip():
            raise DataError(
                f"{path}, line {line_no}: {line!r} should be a term of the source, a tab, and a "
                "phrase of the target; more tabs and phrases for alternatives"
            )
    return terms

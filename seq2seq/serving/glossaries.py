"""Clients' glossaries: their entries, and the phrases that they require of translations."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seq2seq.base.text_stream import without_marks
from seq2seq.decoding.constraints.glossary import Glossary
from seq2seq.decoding.constraints.placeholders import MAX_CHARACTERS, MAX_REQUIRED
from seq2seq.decoding.constraints.request import Groups
from seq2seq.serving.errors import HTTPError
from seq2seq.text.languages import is_spaceless, language_code
from seq2seq.translation.request import TranslationRequest

MAX_ENTRIES = 10_000  # that a glossary may have
MAX_LENGTH = 200  # characters that a term or its translation may have
COLUMNS = {"tsv": (2,), "csv": (2, 4)}
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Entries = Mapping[str, str]  # translation by source term
# Pairs of a term and its translation; pairs with the same term are alternatives.
Terms = Sequence[tuple[str, str]]


def parse_entries(text: str, kind: str, pair: str) -> dict[str, str]:
    """The entries in a text with one entry per line.

    Args:
        kind: Format of the lines: `tsv`, or `csv`, where the two language codes may follow.
        pair: Codes of the languages, such as `de-en`.

    Raises: HTTPError if a line is not an entry (the message names the line), or there are too many.
    """
    plain: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    layout = plain if kind == "tsv" else {"strict": True}
    entries: dict[str, str] = {}
    rows = csv.reader(io.StringIO(without_marks(text), newline=""), **layout)
    try:
        for row in rows:
            number, phrases = rows.line_num, [phrase.strip() for phrase in row]
            if not any(phrases):
                continue
            if len(row) not in COLUMNS[kind] or not all(map(is_phrase, phrases)):
                raise HTTPError(
                    400,
                    f"line {number} of entries should be a term and its translation, as {kind}, "
                    f"each of 1 to {MAX_LENGTH} characters",
                )
            if "-".join(map(language_code, phrases[2:])) not in ("", pair):
                raise HTTPError(400, f"line {number} of entries is for other languages than {pair}")
            if phrases[0] in entries:
                raise HTTPError(400, f"line {number} of entries repeats an earlier term")
            entries[phrases[0]] = phrases[1]
            check_entry_count(entries)
    except csv.Error as error:
        raise HTTPError(400, f"line {rows.line_num} of entries is not {kind}: {error}") from None
    if not entries:
        raise HTTPError(400, "entries is empty: write a term and its translation on each line")
    return entries


def is_phrase(text: str) -> bool:
    return 0 < len(text) <= MAX_LENGTH and not CONTROL.search(text)


def check_entry_count(entries: Entries) -> None:
    """Check the size of a glossary. Raises: HTTPError if it has too many entries."""
    if len(entries) > MAX_ENTRIES:
        raise HTTPError(413, f"a glossary may have at most {MAX_ENTRIES:,} entries")


def format_entries(entries: Entries) -> str:
    """The entries as lines, each with a tab between the term and its translation."""
    return "\n".join(f"{term}\t{translation}" for term, translation in entries.items())


def build_glossary(terms: Terms, language: str) -> Glossary:
    """A glossary for texts in a language. A term that has several translations is translated by one
    of them.
    """
    phrases: dict[str, tuple[str, ...]] = {}
    for pair in terms:
        term, translation = map(without_marks, pair)
        phrases[term] = (*phrases.get(term, ()), translation)
    return Glossary(list(phrases.items()), spaceless=is_spaceless(language))


def require_phrases(sentences: Iterable[TranslationRequest], glossary: Glossary) -> None:
    """Require the translation of each sentence to follow the glossary."""
    for sentence in sentences:
        found = glossary.alternatives(sentence.text)
        sentence.must += first_groups(group for group in found if group not in sentence.must)


def first_groups(groups: Iterable[tuple[str, ...]]) -> Groups:
    """The first groups of phrases without duplicates, as many as a search can require at once."""
    first: list[tuple[str, ...]] = []
    room = MAX_CHARACTERS
    for group in dict.fromkeys(groups):
        room -= sum(map(len, group))
        if room < 0 or len(first) == MAX_REQUIRED:
            break
        first.append(group)
    return tuple(first)

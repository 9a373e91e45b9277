"""A glossary: terms of the source, and the phrases that translate them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Self

from seq2seq.constraints.spelling import count_occurrences
from seq2seq.data.text import read_lines
from seq2seq.errors import DataError

BEGINNING = 4  # characters of a term by which it is found


@dataclass(frozen=True)
class Glossary:
    """Terms that a source may contain, and how they are translated.

    Attributes:
        entries: terms, and for each the phrases of which a translation contains one.
        same_case: does a term occur only in its own case?
        spaceless: has the source language no spaces between words?
    """

    entries: Sequence[tuple[str, tuple[str, ...]]] = ()
    same_case: bool = True
    spaceless: bool = False

    @classmethod
    def read(cls, path: Path, same_case: bool = True, spaceless: bool = False) -> Self:
        """The glossary of a file: a term and its phrases in each line, with tabs between.

        Terms and phrases are literal: there are no escapes, quotes or comments. Phrases of several
        lines with one term are alternatives, as on one line.

        Raises: DataError for a line without a phrase.
        """
        entries: dict[str, tuple[str, tuple[str, ...]]] = {}
        for line_no, line in enumerate(read_lines(path), start=1):
            term, *phrases = (field.strip() for field in line.split("\t"))
            if term and all(phrases) and phrases:
                key = term if same_case else term.casefold()
                first, known = entries.get(key, (term, ()))
                entries[key] = first, tuple(dict.fromkeys([*known, *phrases]))
            elif line.strip():
                raise DataError(
                    f"{path}, line {line_no}: {line!r} should be a term of the source, a tab, and "
                    "a phrase of the target; more tabs and phrases for alternatives"
                )
        return cls(list(entries.values()), same_case, spaceless)

    def alternatives(self, text: str) -> list[tuple[str, ...]]:
        """The phrases of each term that occurs in a text, in time that hardly depends on how many
        other terms there are.
        """
        if not self.entries:
            return []
        text = self._fold(text)
        lengths = range(1, BEGINNING + 1)
        beginnings = {text[i : i + length] for length in lengths for i in range(len(text))}
        places = (self._places[each] for each in self._places.keys() & beginnings)
        return [
            self.entries[place][1]
            for place in sorted(chain.from_iterable(places))
            if count_occurrences(self._fold(self.entries[place][0]), text, self.spaceless)
        ]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The places of the entries by the beginnings of their terms."""
        places: dict[str, list[int]] = {}
        for place, (term, _) in enumerate(self.entries):
            places.setdefault(self._fold(term)[:BEGINNING], []).append(place)
        return places

    def _fold(self, text: str) -> str:
        return text if self.same_case else text.casefold()

"""A glossary: terms of the source and their translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from seq2seq.base.errors import DataError
from seq2seq.data.text.lines import read_lines
from seq2seq.decoding.constraints.spelling import is_inside_word


@dataclass(frozen=True)
class Glossary:
    """Terms that a source may contain, and their translations.

    Attributes:
        entries: terms, each with alternative phrases, one of which the translation must contain.
        same_case: True if terms match only in their own case.
        spaceless: True if the source language has no spaces between words.
    """

    entries: Sequence[tuple[str, tuple[str, ...]]] = ()
    same_case: bool = True
    spaceless: bool = False

    @classmethod
    def read(cls, path: Path, same_case: bool = True, spaceless: bool = False) -> Self:
        """Read a file with a term and its phrases on each line, separated by tabs.

        Terms and phrases are literal: there are no escapes, quotes or comments. Lines with the same
        term add alternatives, like several phrases on one line.

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
        """The phrases of each term that occurs in a text. The time hardly depends on the size of
        the glossary.
        """
        if not self.entries:
            return []
        text = self._fold(text)
        found: set[int] = set()
        for begin in range(len(text)):
            if not self.spaceless and is_inside_word(text, begin):
                continue
            for length in self._lengths.get(text[begin], ()):
                end = begin + length
                places = self._places.get(text[begin:end], ())
                if places and (self.spaceless or not is_inside_word(text, end)):
                    found.update(places)
        return [self.entries[place][1] for place in sorted(found)]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The indices of the entries by term."""
        places: dict[str, list[int]] = {}
        for place, (term, _) in enumerate(self.entries):
            places.setdefault(self._fold(term), []).append(place)
        return places

    @cached_property
    def _lengths(self) -> dict[str, set[int]]:
        """The lengths of the terms by first character."""
        lengths: dict[str, set[int]] = {}
        for term in self._places:
            lengths.setdefault(term[:1], set()).add(len(term))
        return lengths

    def _fold(self, text: str) -> str:
        return text if self.same_case else text.casefold()

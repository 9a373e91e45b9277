"""Formats of parallel text: two files of lines, tab-separated values, JSON lines."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2seq.data.cache import FileMemo
from seq2seq.data.text import (
    MissingFileError,
    check_parallel,
    count_lines,
    neighbours,
    parallel_paths,
    read_lines,
)
from seq2seq.errors import ConfigError, DataError
from seq2seq.unpacked import without_marks

Pair = tuple[str, str]


class TextFormat(ABC):
    """Pairs of sentences in files; a faulty file raises DataError with the line."""

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """The files: source and target, or the one that holds both."""

    @property
    @abstractmethod
    def settings(self) -> tuple[str, ...]:
        """What else determines which pairs are read."""

    @property
    def first_line(self) -> int:
        """The line number of the first pair."""
        return 1

    @abstractmethod
    def pairs(self) -> Iterator[Pair]:
        """Source and target of every pair, in order, none left out."""

    @abstractmethod
    def side(self, index: int) -> Iterator[str]:
        """All sources (0) or all targets (1)."""

    @abstractmethod
    def check(self, memo: FileMemo) -> int:
        """Check the files, or recall that they were checked. Returns: how many pairs there are."""


@dataclass(frozen=True)
class TwoFiles(TextFormat):
    """Line n of one file is the translation of line n of the other."""

    source: Path
    target: Path

    @property
    def files(self) -> tuple[Path, ...]:
        return self.source, self.target

    @property
    def settings(self) -> tuple[str, ...]:
        return ("lines",)

    def pairs(self) -> Iterator[Pair]:
        return zip(read_lines(self.source), read_lines(self.target), strict=True)

    def side(self, index: int) -> Iterator[str]:
        return read_lines(self.files[index])

    def check(self, memo: FileMemo) -> int:
        def count(path: Path) -> int:
            return memo.recall(path, "lines", count_lines)

        return check_parallel(self.source, self.target, count)


@dataclass(frozen=True)
class OneFile(TextFormat):
    """One file; every row holds both sentences.

    Attributes:
        path: the file.
        columns: names of the source and the target column.
    """

    path: Path
    columns: Pair

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def settings(self) -> tuple[str, ...]:
        return type(self).__name__, *self.columns

    def side(self, index: int) -> Iterator[str]:
        return (pair[index] for pair in self.pairs())

    def check(self, memo: FileMemo) -> int:
        def count(path: Path) -> int:
            return sum(1 for _ in self.pairs())

        return memo.recall(self.path, json.dumps(self.settings), count)


class TabTable(OneFile):
    """Columns separated by tabs; quotes have no special meaning.

    The first line names the columns, unless columns are given by number, from 1: then the first
    line is a pair.
    """

    @property
    def first_line(self) -> int:
        return 1 if all(self._are_indices) else 2

    @property
    def _are_indices(self) -> list[bool]:
        return [name.isascii() and name.isdigit() for name in self.columns]

    def pairs(self) -> Iterator[Pair]:
        lines = enumerate(read_lines(self.path), start=1)
        are_indices = self._are_indices
        if any(are_indices) and not all(are_indices):
            raise DataError(
                f"{self.path}: give both columns by name or both by number, not data.source="
                f"{self.columns[0]} and data.target={self.columns[1]}. Numbers count from 1: "
                "data.source=1 data.target=2"
            )
        line_no = width = 0
        places: list[int] | None = None
        for line_no, line in lines:
            cells = line.split("\t")
            if places is None:
                width = len(cells)
                places = self._numbered(width) if all(are_indices) else self._named(cells)
                if not all(are_indices):
                    continue
            if len(cells) != width:
                raise DataError(
                    f"{self.path}, line {line_no}: {len(cells)} column(s), but {width} in line 1. "
                    "All lines need the same number; tabs separate columns, quotes mean nothing."
                )
            yield cells[places[0]], cells[places[1]]
        if line_no == 1 and not all(are_indices):
            raise DataError(
                f"{self.path} has a header and nothing else: expected one pair per line."
            )

    def _numbered(self, width: int) -> list[int]:
        for name in self.columns:
            if not 1 <= int(name) <= width:
                raise DataError(
                    f"{self.path}, line 1: there is no column {name}: the columns are 1 to {width}."
                )
        return [int(name) - 1 for name in self.columns]

    def _named(self, header: list[str]) -> list[int]:
        for option, name in zip(("source", "target"), self.columns, strict=True):
            if header.count(name) != 1:
                problem = "no column" if name not in header else "more than one column"
                raise DataError(
                    f"{self.path}, line 1: {problem} {name!r}. Its columns: "
                    f"{', '.join(cell[:40] for cell in header[:20])}. Type data.{option}=COLUMN; "
                    "without a header, data.source=1 data.target=2"
                )
        return [header.index(name) for name in self.columns]


class JsonLines(OneFile):
    """One JSON object per line, with the sentences as strings under two of its keys."""

    def pairs(self) -> Iterator[Pair]:
        for line_no, line in enumerate(read_lines(self.path), start=1):
            where = f"{self.path}, line {line_no}"
            row = _object(line, where)
            source, target = (self._text(row, i, where) for i in (0, 1))
            # Only an escape can produce a lone surrogate, which is not a character.
            if "\\u" in line and not (_is_text(source) and _is_text(target)):
                raise DataError(
                    f"{where}: a lone surrogate (\\ud800 to \\udfff) is not a character. Write the "
                    "character itself, or both halves of the pair."
                )
            yield without_marks(source), without_marks(target)

    def _text(self, row: dict[str, Any], index: int, where: str) -> str:
        key, option = self.columns[index], ("source", "target")[index]
        if key not in row:
            raise DataError(
                f"{where}: no key {key!r}. Its keys: {', '.join(k[:40] for k in list(row)[:20])}. "
                f"Type data.{option}=KEY"
            )
        value = row[key]
        if not isinstance(value, str):
            raise DataError(f"{where}: {key!r} is {json.dumps(value)[:40]}; expected a string.")
        return value


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_unique)
    except _RepeatedKeyError as error:
        raise DataError(f"{where}: the key {str(error)!r} occurs twice.") from error
    except RecursionError as error:
        raise DataError(f"{where}: JSON nested too deeply.") from error
    except ValueError as error:
        raise DataError(
            f"{where}: not JSON ({error}). Expected one object per line, such as "
            '{"de": "Ein Hund.", "en": "A dog."}'
        ) from error
    if not isinstance(row, dict):
        raise DataError(
            f"{where}: {line[:40]} is not an object. Expected one per line, such as "
            '{"de": "Ein Hund.", "en": "A dog."}'
        )
    return row


class _RepeatedKeyError(Exception):
    """A key that occurs twice in an object: which value is meant is unknown."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return row


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


FORMATS: dict[str, type[OneFile]] = {".tsv": TabTable, ".jsonl": JsonLines}


def find_format(spec: str | list[str], source: str, target: str, what: str) -> TextFormat:
    """The format of a spec: one .tsv or .jsonl file (or .gz), else two files of lines.

    Args:
        spec: the file, or an argument of `parallel_paths`.
        source: column of the source language, or suffix of its file.
        target: likewise of the target language.
        what: the option that holds `spec` (`data.train`), for the messages.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths, or if
        source and target are the same text.
    """
    if isinstance(spec, str):
        if source == target:
            raise ConfigError(
                f"data.source={source} and data.target={target} make each text of {what}={spec} "
                "its own translation: name two different columns or suffixes, as data.source=de "
                f"data.target=en, or both files: {what}=[a.txt,b.txt]"
            )
        kind = FORMATS.get(Path(spec.removesuffix(".gz")).suffix)
        if kind is not None:
            path = Path(spec).expanduser()
            if not path.is_file():
                raise MissingFileError(f"{what}={spec}: {path} is not a file. {neighbours(path)}")
            return kind(path, (source, target))
    return TwoFiles(*parallel_paths(spec, source, target, what))

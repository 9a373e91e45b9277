"""The forms that parallel text comes in: two files of lines, a table with tabs, JSON lines."""

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
    """Pairs of sentences in files; every fault of a file is a DataError with its line."""

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """The files, in an order that tells source and target apart."""

    @property
    @abstractmethod
    def settings(self) -> tuple[str, ...]:
        """What else decides which pairs are read."""

    @property
    def first_line(self) -> int:
        """The line of the first pair."""
        return 1

    @abstractmethod
    def pairs(self) -> Iterator[Pair]:
        """Source and target of every pair, in order, nothing left out."""

    @abstractmethod
    def side(self, index: int) -> Iterator[str]:
        """All sources (0) or all targets (1)."""

    @abstractmethod
    def check(self, memo: FileMemo) -> int:
        """Read every byte, unless it is known that they are in order. Returns: the pairs."""


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
    """A file whose every row holds both sentences.

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
    """Columns separated by tabs; a quote is a character like any other.

    The first line names the columns. Columns given by number, from 1, need no such line: then the
    first line is a pair as well.
    """

    @property
    def first_line(self) -> int:
        return 1 if all(self._numbers) else 2

    @property
    def _numbers(self) -> list[bool]:
        return [name.isascii() and name.isdigit() for name in self.columns]

    def pairs(self) -> Iterator[Pair]:
        lines = enumerate(read_lines(self.path), start=1)
        numbered = self._numbers
        if any(numbered) and not all(numbered):
            raise DataError(
                f"{self.path}: give both columns by name or both by number, not data.source="
                f"{self.columns[0]} and data.target={self.columns[1]}. Numbers count from 1: "
                "data.source=1 data.target=2"
            )
        number = width = 0
        places: list[int] | None = None
        for number, line in lines:
            cells = line.split("\t")
            if places is None:
                width = len(cells)
                places = self._numbered(width) if all(numbered) else self._named(cells)
                if not all(numbered):
                    continue
            if len(cells) != width:
                raise DataError(
                    f"{self.path}, line {number}: columns: {len(cells)}, in line 1: {width}. Every "
                    "line needs as many; a tab ends a column, a quote is a character like any "
                    "other."
                )
            yield cells[places[0]], cells[places[1]]
        if number == 1 and not all(numbered):
            raise DataError(f"{self.path} is empty but for its header: expected a pair a line.")

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
                found = "no column" if name not in header else "more than one column"
                raise DataError(
                    f"{self.path}, line 1: {found} {name!r}. Its columns: "
                    f"{', '.join(cell[:40] for cell in header[:20])}. Type data.{option}=COLUMN; "
                    "without a header, data.source=1 data.target=2"
                )
        return [header.index(name) for name in self.columns]


class JsonLines(OneFile):
    """A JSON object a line, with the two sentences as strings under two of its keys."""

    def pairs(self) -> Iterator[Pair]:
        for number, line in enumerate(read_lines(self.path), start=1):
            where = f"{self.path}, line {number}"
            row = _object(line, where)
            source, target = (self._text(row, i, where) for i in (0, 1))
            # Only an escape can smuggle in half of a pair of surrogates, which is no character.
            if "\\u" in line and not (_is_text(source) and _is_text(target)):
                raise DataError(
                    f"{where}: a lone surrogate (\\ud800 to \\udfff) is no character. Write the "
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
        raise DataError(f"{where}: the key {str(error)!r} stands there twice.") from error
    except RecursionError as error:
        raise DataError(f"{where}: JSON nested too deeply.") from error
    except ValueError as error:
        raise DataError(
            f"{where}: not JSON ({error}). Expected an object a line, such as "
            '{"de": "Ein Hund.", "en": "A dog."}'
        ) from error
    if not isinstance(row, dict):
        raise DataError(
            f"{where}: {line[:40]} is no object. Expected one a line, such as "
            '{"de": "Ein Hund.", "en": "A dog."}'
        )
    return row


class _RepeatedKeyError(Exception):
    """A key that an object has twice: which value is meant, nobody can tell."""


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
    """The form that an option means: one .tsv or .jsonl file (or .gz), else two files of lines.

    Args:
        spec: the file, or what `parallel_paths` takes.
        source: column of the source language, or suffix of its file.
        target: column of the target language, or suffix of its file.
        what: the option that holds `spec` (`data.train`), for the messages.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths, or if
        source and target would be the same text.
    """
    if isinstance(spec, str):
        if source == target:
            raise ConfigError(
                f"data.source={source} and data.target={target} make each text of {what}={spec} "
                "its own translation: name two different columns or endings, as data.source=de "
                f"data.target=en, or both files: {what}=[a.txt,b.txt]"
            )
        kind = FORMATS.get(Path(spec.removesuffix(".gz")).suffix)
        if kind is not None:
            path = Path(spec).expanduser()
            if not path.is_file():
                raise MissingFileError(f"{what}={spec}: {path} is not a file. {neighbours(path)}")
            return kind(path, (source, target))
    return TwoFiles(*parallel_paths(spec, source, target, what))

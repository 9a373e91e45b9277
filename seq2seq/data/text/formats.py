"""Formats of parallel text: two files of lines, tab-separated values, JSON lines."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.text_stream import without_marks
from seq2seq.data.corpus.cache import FileMemo
from seq2seq.data.text.lines import (
    MissingFileError,
    check_parallel,
    count_lines,
    parallel_paths,
    read_lines,
    similar_names,
)

Pair = tuple[str, str]


def hash_pair(source: str, target: str) -> int:
    """A 64-bit hash of a pair's text: 10 million pairs collide with probability 1 / 370,000."""
    # The length tells "ab", "c" and "a", "bc" apart.
    text = f"{len(source)} {source}{target}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class TextFormat(ABC):
    """Pairs of sentences in files. Faulty files raise DataError with the line.

    Attributes:
        files: files of source and target, or the one file that holds both.
        settings: everything except the files that determines the pairs.
        first_line: the line number of the first pair.
    """

    files: tuple[Path, ...]
    settings: tuple[str, ...]
    first_line = 1

    @abstractmethod
    def pairs(self) -> Iterator[Pair]:
        """Source and target of every pair, in order, without omissions."""

    @abstractmethod
    def check(self, memo: FileMemo) -> int:
        """Check the files unless they were checked before. Returns: the number of pairs."""

    def side(self, index: int) -> Iterator[str]:
        """All sources (0) or all targets (1)."""
        return (pair[index] for pair in self.pairs())

    def fingerprint(self, memo: FileMemo) -> list[str]:
        """The settings and the hash of each file, which together determine the pairs."""
        return [*self.settings, *map(memo.sha256, self.files)]


class TwoFiles(TextFormat):
    """Line n of one file is the translation of line n of the other."""

    settings = ("lines",)

    def __init__(self, source: Path, target: Path):
        self.source, self.target = source, target
        self.files = source, target

    def pairs(self) -> Iterator[Pair]:
        return zip(read_lines(self.source), read_lines(self.target), strict=True)

    def side(self, index: int) -> Iterator[str]:
        return read_lines(self.files[index])

    def check(self, memo: FileMemo) -> int:
        count = partial(memo.recall, what="lines", compute=count_lines)
        return check_parallel(self.source, self.target, "training on", count)


class OneFile(TextFormat):
    """One file; every row holds both sentences.

    Args:
        columns: names of the source and the target column.
    """

    def __init__(self, path: Path, columns: Pair):
        self.path, self.columns = path, columns
        self.files = (path,)
        self.settings = type(self).__name__, *columns

    def check(self, memo: FileMemo) -> int:
        what = json.dumps(self.settings)
        return memo.recall(self.path, what, lambda _: sum(1 for _ in self.pairs()))


class TabTable(OneFile):
    """Columns separated by tabs; quotes have no special meaning.

    The first line names the columns. If columns are given by number, from 1, there is no such line
    and the first line is a pair.
    """

    def __init__(self, path: Path, columns: Pair):
        super().__init__(path, columns)
        self.first_line = 1 if are_numbers(columns) else 2

    def pairs(self) -> Iterator[Pair]:
        width, source, target, line_no = 0, 0, 0, 0
        for line_no, line in enumerate(read_lines(self.path), start=1):
            cells = line.split("\t")
            if line_no == 1:
                width, (source, target) = len(cells), self._places(cells)
            if len(cells) != width:
                raise DataError(
                    f"{self.path}, line {line_no}: {len(cells)} column(s), but {width} in line 1. "
                    "All lines need the same number; tabs separate columns, quotes mean nothing."
                )
            if line_no >= self.first_line:
                yield cells[source], cells[target]
        if line_no < self.first_line:
            raise DataError(
                f"{self.path} has a header and nothing else: expected one pair per line."
            )

    def _places(self, first: list[str]) -> list[int]:
        """The indices of both columns, from the first line."""
        numbers = [str(number) for number in range(1, len(first) + 1)]
        names = first if self.first_line == 2 else numbers
        for option, name in zip(("source", "target"), self.columns, strict=True):
            if names.count(name) != 1:
                problem = "no column" if name not in names else "more than one column"
                raise DataError(
                    f"{self.path}, line 1: {problem} {name!r}. Its columns: "
                    f"{', '.join(cell[:40] for cell in names[:20])}. Name another {option}; "
                    "without a header, 1 as source and 2 as target"
                )
        return [names.index(name) for name in self.columns]


class JsonLines(OneFile):
    """One JSON object per line, with the sentences as strings under two of its keys."""

    def pairs(self) -> Iterator[Pair]:
        for line_no, line in enumerate(read_lines(self.path), start=1):
            where = f"{self.path}, line {line_no}"
            row = json_object(line, where)
            source, target = (self._text(row, i, where) for i in (0, 1))
            # Only an escape can produce a lone surrogate, which is not a character.
            if "\\u" in line and any("\ud800" <= c <= "\udfff" for c in source + target):
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
                f"Name another {option}"
            )
        value = row[key]
        if not isinstance(value, str):
            raise DataError(f"{where}: {key!r} is {json.dumps(value)[:40]}; expected a string.")
        return value


def json_object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
        if not isinstance(row, dict):
            raise ValueError(f"{line[:40]} is not an object")
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not JSON as expected: {error}. Write one object per line, such as "
            '{"de": "Ein Hund.", "en": "A dog."}'
        ) from error
    return row


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises: ValueError if a key occurs twice, so that its value is ambiguous."""
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} occurs twice")
    return row


def are_numbers(columns: Sequence[str]) -> bool:
    """True if columns are given by number, in a table without a header."""
    return all(name.isascii() and name.isdigit() for name in columns)


def format_row(suffix: str, columns: Sequence[str], cells: Sequence[Any]) -> str:
    """Format cells as a line of a .tsv or .jsonl file. In a .tsv, cells must not contain tabs or
    line ends; numbered columns keep their numbers, and columns between them are empty.
    """
    named = dict(zip(columns, cells, strict=True))
    if suffix == ".jsonl":
        return json.dumps(named, ensure_ascii=False)
    if are_numbers(columns):
        cells = [named.get(str(place + 1), "") for place in range(max(map(int, columns)))]
    return "\t".join(map(str, cells))


FORMATS: dict[str, type[OneFile]] = {".tsv": TabTable, ".jsonl": JsonLines}


def find_format(spec: str | list[str], source: str, target: str, what: str) -> TextFormat:
    """The format of a spec: one .tsv or .jsonl file (or .gz), else two files of lines.

    Args:
        spec: the file, or a spec for `parallel_paths`.
        source: column of the source language, or suffix of its file.
        target: likewise of the target language.
        what: the option that holds `spec` (`data.train`), for the messages.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths, or if
        source and target are the same text.
    """
    if isinstance(spec, str):
        if source == target:
            raise ConfigError(
                f"source {source} and target {target} make each text of {what}={spec} its own "
                "translation: name two different columns or suffixes, such as de and en, or both "
                f"files: {what}=[a.txt,b.txt]"
            )
        kind = FORMATS.get(Path(spec.removesuffix(".gz")).suffix)
        if kind is not None:
            path = Path(spec).expanduser()
            if not path.is_file():
                raise MissingFileError(
                    f"{what}={spec}: {path} is not a file. {similar_names(path)}"
                )
            return kind(path, (source, target))
    return TwoFiles(*parallel_paths(spec, source, target, what))

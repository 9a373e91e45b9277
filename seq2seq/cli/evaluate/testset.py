"""Read the sentences and references of a test set, and check them before loading a model."""

from pathlib import Path
from typing import NamedTuple

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.data.text.lines import check_parallel, count_lines, read_lines

COMMAND = "seq2seq evaluate PATH [PATH ...] SRC REF"


class TestSet(NamedTuple):
    """The sentences to translate, and their references."""

    source_path: Path
    source: list[str]
    # The first reference of each sentence, then the second of each...; None where missing.
    references: list[list[str | None]]

    @property
    def first(self) -> list[str]:
        """The first reference of each sentence."""
        return [reference or "" for reference in self.references[0]]


def split_files(files: list[Path]) -> tuple[list[Path], list[Path]]:
    """Split the arguments into the systems and the two files of the test set.

    Raises: ConfigError if there are too few arguments, or in the wrong order.
    """
    if len(files) < 3:
        raise ConfigError(
            f"{len(files)} given ({' '.join(map(str, files))}), three or more are needed: {COMMAND}"
        )
    for path, role in zip(files[-2:], ("SRC", "REF"), strict=True):
        if path.is_dir() or path.suffix == ".ckpt":
            raise ConfigError(f"{path} should be {role}, not a folder or a checkpoint: {COMMAND}")
    return files[:-2], files[-2:]


def read_test_set(source: Path, references: Path) -> TestSet:
    """Read sources and references.

    Raises: DataError if a file cannot be read, or if their numbers of lines differ.
    """
    check_parallel(source, references, "scoring")
    lines, streams = list(read_lines(source)), read_references(references)
    if len(streams) > 1 and all(map(same_text, lines, streams[0])):
        zipped = references.suffix == ".gz"
        cut = f"zcat {references} | cut -f2-" if zipped else f"cut -f2- {references}"
        raise DataError(
            f"the first column of {references} is the source itself. Leave it out: {cut} > "
            "references.tsv"
        )
    return TestSet(source, lines, streams)


def is_table(path: Path) -> bool:
    """True if a file of references has a column per reference."""
    return ".tsv" in path.suffixes[-2:]


def read_references(path: Path) -> list[list[str | None]]:
    """The references of a file: one sentence per line, or a .tsv with a column per reference.

    Lines of a .tsv may have any number of columns; empty columns are ignored.

    Raises: DataError if a line of a .tsv has no reference at all.
    """
    lines = list(read_lines(path))
    if not is_table(path):
        return [list(lines)]
    rows = [[column for column in line.split("\t") if column.strip()] for line in lines]
    for line_no, row in enumerate(rows, start=1):
        if not row:
            raise DataError(f"{path}, line {line_no}: there is no reference. Give one or more")
    width = max(map(len, rows))
    return [[row[i] if i < len(row) else None for row in rows] for i in range(width)]


def check_hypotheses(path: Path, test_set: TestSet) -> None:
    """Raises: DataError if a file of translations does not have a line for each sentence."""
    count, expected = count_lines(path), len(test_set.source)
    if count != expected:
        raise DataError(
            f"{path} has {count:,} line(s), {test_set.source_path} {expected:,}. Line n of the "
            "translations must translate line n; a sentence without one is an empty line."
        )


def same_text(source: str, reference: str | None) -> bool:
    return "".join(source.split()) == "".join((reference or "").split())

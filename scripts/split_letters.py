"""Convert tables of words into files of letters, for inflection and for spelling to sound.

    python scripts/split_letters.py inflection fin.trn fin.dev fin.tst
    python scripts/split_letters.py g2p ice_train.tsv ice_dev.tsv ice_test.tsv
    seq2seq translate RUN < data/inflection/test.lemma | python scripts/split_letters.py join

The tables are in the format of SIGMORPHON and UniMorph, with columns separated by tabs. For
inflection, the columns are a lemma, an inflected form and its features, `V;PST;3;SG`; the column
with semicolons is taken for the features. Without a column of forms, only sources are written. For
spelling to sound (g2p), the columns are a word and its sounds, which are separated by spaces.

A letter is a code point. Lemmas and forms are in composed normal form (NFC). Words to be spoken are
in decomposed form (NFD), because accents, voicing marks and the parts of Korean syllables have
sounds of their own, and such words need not be restored. A space in a word becomes `␣`; `join`
restores words and spaces.
"""

import argparse
import os
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from seq2seq.base.durable import replacing
from seq2seq.base.errors import DataError, Seq2SeqError, fail
from seq2seq.data.text.lines import read_lines

PARTS = ("train", "valid", "test")
SPACE = "\N{OPEN BOX}"
Row = list[str]  # the columns of a line
Table = dict[str, list[str]]  # the lines of each file, by suffix


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("inflection", "g2p", "join"))
    help_files = "tables for training, validation and test, in this order; .gz too"
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help=help_files)
    parser.add_argument("-o", "--output", type=Path, help="folder (data/TASK)")
    options = parser.parse_args(arguments)
    if options.task == "join":
        if options.files or options.output:
            parser.error("join reads standard input and writes to standard output: join < FILE")
        try:
            sys.stdout.writelines(map(join, sys.stdin))
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if not 1 <= len(options.files) <= len(PARTS):
        parser.error(f"{len(options.files)} files: give one to three, for {', '.join(PARTS)}")
    try:
        convert(options.task, options.files, options.output or Path("data") / options.task)
    except (Seq2SeqError, OSError) as error:
        return fail(str(error))
    return 0


def convert(task: str, files: list[Path], folder: Path) -> None:
    """Write the files of letters of each table.

    Raises: DataError if a table is faulty; no file is written then.
    """
    splits: dict[str, Callable[[list[Row]], Table]] = {"inflection": inflection, "g2p": g2p}
    tables = [splits[task](read_table(file)) for file in files]
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in zip(PARTS, tables, strict=False):
        for suffix, lines in table.items():
            with replacing(folder / f"{name}.{suffix}") as target:
                target.write("".join(line + "\n" for line in lines).encode())
            print(f"{folder / name}.{suffix}: {len(lines):,} lines")


def read_table(file: Path) -> list[Row]:
    """The stripped columns of every line that is not blank.

    Raises: DataError if a line has fewer than two columns or not as many as the first line, or if a
        column is empty or contains SPACE.
    """
    rows: list[Row] = []
    for number, line in enumerate(read_lines(file), 1):
        row = [column.strip() for column in line.split("\t")]
        if row == [""]:
            continue
        where = f"{file}, line {number}"
        if len(row) < 2 or len(row) != len(rows[0] if rows else row):
            expected = len(rows[0]) if rows else "two or more"
            raise DataError(f"{where}: {len(row)} column(s) between tabs, expected {expected}")
        if "" in row or SPACE in line:
            wrong = f"contains {SPACE}, which marks a space" if SPACE in line else "is empty"
            raise DataError(f"{where}: a column {wrong}. Correct the line, or remove it")
        rows.append(row)
    if not rows:
        raise DataError(f"{file} has no examples")
    return rows


def inflection(rows: list[Row]) -> Table:
    """The lines for inflection. Sources are the features in angle brackets and the letters of the
    lemma; targets are the letters of the form.
    """
    columns = range(len(rows[0]) - 1, 0, -1)
    features = max(columns, key=lambda column: sum(";" in row[column] for row in rows))
    forms = [column for column in reversed(columns) if column != features]
    table = {"lemma": [f"{brackets(row[features])} {letters(row[0])}" for row in rows]}
    if forms:
        table["form"] = [letters(row[forms[0]]) for row in rows]
    return table


def g2p(rows: list[Row]) -> Table:
    """The lines for spelling to sound: the letters of the words, and their sounds unchanged."""
    return {
        "letters": [letters(row[0], "NFD") for row in rows],
        "phones": [unicodedata.normalize("NFC", row[1]) for row in rows],
    }


def brackets(features: str) -> str:
    """Put features into angle brackets: `V;PST` -> `<V> <PST>`."""
    names = ("_".join(name.split()) for name in features.split(";"))
    return " ".join(f"<{name}>" for name in names if name)


def letters(word: str, form: Literal["NFC", "NFD"] = "NFC") -> str:
    """Split a word into letters: `ab c` -> `a b ␣ c`."""
    return " ".join(SPACE if c.isspace() else c for c in unicodedata.normalize(form, word))


def join(line: str) -> str:
    """Join letters into words: `a b ␣ c` -> `ab c`."""
    return line.replace(" ", "").replace(SPACE, " ")


if __name__ == "__main__":
    sys.exit(main())

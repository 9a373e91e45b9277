"""The files of a cleaned corpus: the pairs that were kept, and counts of those that were not."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.cleaning.verdicts import OUTCOMES, Verdicts
from seq2seq.data.file_memo import file_state
from seq2seq.data.formats import FORMATS, Pair, are_numbers, format_row
from seq2seq.durable import replacing
from seq2seq.errors import DataError

SHOWN = 8  # pairs of each outcome
NAMED = 100  # pairs of each rule in the ledger, as lines in that of a run

Examples = dict[str, list[tuple[int, Pair]]]  # by outcome: the number of a pair, and its texts


def output_paths(output: Path, columns: Pair) -> list[Path]:
    """A file of a format that holds both sides, or two files of lines."""
    if output.suffix in FORMATS:
        return [output]
    return [Path(f"{output}.{column}") for column in columns]


def write_kept(
    paths: Sequence[Path],
    columns: Pair,
    pairs: Iterable[Pair],
    verdicts: Verdicts,
    judged: Mapping[Path, Any],
) -> Examples:
    """Write the pairs that were kept to all files, or to none.

    Args:
        paths: from `output_paths`.
        columns: of source and target; a header where they are no numbers.
        pairs: those that were judged.
        judged: their files, each with its `file_state` before that.

    Returns: up to `SHOWN` pairs of each outcome, from all over the corpus.
    Raises: DataError for a text that the format cannot hold, and if a file has changed.
    """
    wanted = example_rows(verdicts)
    examples: Examples = {outcome: [] for outcome in OUTCOMES}
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in paths]
        if paths[0].suffix == ".tsv" and not are_numbers(columns):
            files[0].write(f"{format_row('.tsv', columns, columns)}\n".encode())
        for row, (verdict, pair) in enumerate(zip(verdicts.tobytes(), pairs, strict=False)):
            if row in wanted:
                examples[OUTCOMES[verdict]].append((row + 1, pair))
            if verdict == 0:
                for file, line in zip(files, lines_of(pair, paths, columns, row + 1), strict=True):
                    file.write(f"{line}\n".encode())
        if any(file_state(path) != state for path, state in judged.items()):
            raise DataError(
                f"{', '.join(map(str, judged))}: a file has changed while it was read. Type the "
                "command again once nothing writes to it"
            )
    return examples


def lines_of(pair: Pair, paths: Sequence[Path], columns: Pair, number: int) -> Sequence[str]:
    """A pair as a line of each file. Raises: DataError if the format cannot hold it."""
    suffix = paths[0].suffix if len(paths) == 1 else ""
    if suffix != ".jsonl":
        marks = "\n\t" if suffix == ".tsv" else "\n"
        if any(text.endswith("\r") or any(mark in text for mark in marks) for text in pair):
            raise DataError(
                f"pair {number:,} has a tab or the end of a line inside a text, which {paths[0]} "
                "cannot hold: --invalid on leaves it out, -o OUT.jsonl can hold it"
            )
    return [format_row(suffix, columns, pair)] if suffix else pair


def example_rows(verdicts: Verdicts) -> set[int]:
    """The rows of up to `SHOWN` pairs of each outcome, at equal distances."""
    rows: set[int] = set()
    for verdict in range(len(OUTCOMES)):
        found = np.flatnonzero(verdicts == verdict)
        places = np.linspace(0, len(found) - 1, min(SHOWN, len(found))).round().astype(int)
        rows.update(found[places].tolist())
    return rows


def count_outcomes(verdicts: Verdicts) -> dict[str, dict[str, Any]]:
    """The count and the first pairs, from 1, of each reason for which pairs were left out."""
    found = {name: np.flatnonzero(verdicts == i) + 1 for i, name in enumerate(OUTCOMES) if i}
    return {
        name: {"count": len(rows), "pairs": rows[:NAMED].tolist()}
        for name, rows in found.items()
        if len(rows)
    }

"""Verdicts on the pairs of a corpus (kept, or the reason why a pair is left out), files of the kept
pairs, and scores of pairs from files with one score per line.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.base.durable import replacing
from seq2seq.base.errors import DataError
from seq2seq.data.cleaning.rules import RULES, Limits, TextPair, first_broken
from seq2seq.data.corpus.cache import file_state
from seq2seq.data.text.formats import (
    FORMATS,
    Pair,
    are_numbers,
    format_row,
    hash_pair,
    json_object,
)
from seq2seq.data.text.leaks import pair_keys, shares_side, side_keys
from seq2seq.data.text.lines import read_lines

KEPT, HELD_OUT, DUPLICATE, WORST = "kept", "held_out", "duplicates", "best"
# Possible outcomes for a pair; verdicts are indices here. The last three depend on other pairs.
OUTCOMES = (KEPT, *RULES, HELD_OUT, DUPLICATE, WORST)

SHOWN = 8  # pairs shown of each outcome
NAMED = 100  # pairs of each rule listed in the ledger, as many as lines in the ledger of a run
Examples = dict[str, list[tuple[int, Pair]]]  # by outcome: numbers and texts of pairs
Verdicts = NDArray[np.uint8]
Scores = NDArray[np.float64]


def judge(
    pairs: Iterable[Pair],
    languages: Pair,
    limits: Limits,
    duplicates: str = "pair",
    scores: Scores | None = None,
    best: float = 1.0,
    held_out: Sequence[Pair] = (),
) -> Verdicts:
    """Judge each pair; returns (pairs,) verdicts. Reads the pairs once, and needs nine bytes for
    each, then about sixty more to sort them.

    Args:
        limits: limits of the rules, see `first_broken`.
        duplicates: leave out pairs that occur again (`pair`), or whose target occurs again
            (`target`), or neither (`off`). Of duplicates, the first with the best score is kept.
        scores: score of each pair, higher is better; None if all are equally good.
        best: share of the remaining pairs to keep, those with the best scores.
        held_out: pairs to test on; pairs with a copy or near-copy of one of their sides are left
            out.

    Raises: DataError if the numbers of scores and pairs differ.
    """
    codes, hashes = bytearray(), array("Q")
    by_target = duplicates == "target"
    keys = side_keys([pair_keys(pair) for pair in held_out])
    for source, target in pairs:
        broken = first_broken(TextPair((source, target), languages), limits)
        if not broken and held_out and shares_side((source, target), keys):
            broken = HELD_OUT
        codes.append(OUTCOMES.index(broken or KEPT))
        hashes.append(0 if broken else hash_pair("" if by_target else source, target))
    verdicts = np.frombuffer(codes, np.uint8)
    known = np.zeros(len(verdicts)) if scores is None else scores
    if len(known) != len(verdicts):
        raise DataError(
            f"--scores: {len(known):,} lines, but {len(verdicts):,} pairs. Score the files that "
            "are cleaned: seq2seq score RUN SRC REF > scores.jsonl"
        )
    if duplicates != "off":
        kept = np.flatnonzero(verdicts == 0)
        hashes_of_kept = np.frombuffer(hashes, np.uint64)[kept] if len(kept) else kept
        # Puts duplicates side by side, the best first, and equally good ones in order.
        order = np.lexsort((-known[kept], hashes_of_kept))
        is_first = np.diff(hashes_of_kept[order], prepend=~hashes_of_kept[order[:1]]) != 0
        verdicts[kept[order[~is_first]]] = OUTCOMES.index(DUPLICATE)
    kept = np.flatnonzero(verdicts == 0)
    order = np.argsort(-known[kept], kind="stable")
    verdicts[kept[order[round(best * len(kept)) :]]] = OUTCOMES.index(WORST)
    return verdicts


def output_paths(output: Path, columns: Pair) -> list[Path]:
    """The output files: one if its format holds both sides, otherwise two files of lines."""
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
        columns: columns of source and target; names, but not numbers, are written as a header.
        pairs: the pairs that were judged.
        judged: files of these pairs, each with its `file_state` before judging.

    Returns: up to `SHOWN` pairs of each outcome, spread over the corpus.
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
    """Rows of up to `SHOWN` pairs of each outcome, at equal distances."""
    rows: set[int] = set()
    for verdict in range(len(OUTCOMES)):
        found = np.flatnonzero(verdicts == verdict)
        places = np.linspace(0, len(found) - 1, min(SHOWN, len(found))).round().astype(int)
        rows.update(found[places].tolist())
    return rows


def count_outcomes(verdicts: Verdicts) -> dict[str, dict[str, Any]]:
    """For each reason to leave out pairs, their count and the numbers of the first ones, from 1."""
    found = {name: np.flatnonzero(verdicts == i) + 1 for i, name in enumerate(OUTCOMES) if i}
    return {
        name: {"count": len(rows), "pairs": rows[:NAMED].tolist()}
        for name, rows in found.items()
        if len(rows)
    }


def read_scores(files: Sequence[Path]) -> Scores:
    """The score of each pair, (pairs,); higher is better.

    Args:
        files: one file, or one for each direction, combined by `dual_cross_entropy`.

    Raises: DataError for a line that is not a score, and for files of different lengths.
    """
    rows = zip_longest(*map(scores_of_lines, files))
    scores = array("d")
    for line_no, row in enumerate(rows, start=1):
        if None in row:
            raise DataError(
                f"{files[row.index(None)]} ends before line {line_no:,}, which the scores of the "
                "other direction have: score the same pairs in both"
            )
        scores.append(row[0] if len(row) == 1 else dual_cross_entropy(*row))
    return np.frombuffer(scores, np.float64)


def dual_cross_entropy(forward: float, backward: float) -> float:
    """-(|H(y|x) - H(x|y)| + (H(y|x) + H(x|y)) / 2), the logarithm of adq of Junczys-Dowmunt 2018
    (arXiv:1809.00197, 2): high where both directions find a pair probable, and equally so.

    Args:
        forward, backward: mean log-probability of a piece, -H, in each direction.
    """
    if -math.inf in (forward, backward):
        return -math.inf
    return (forward + backward) / 2 - abs(forward - backward)


def scores_of_lines(path: Path) -> Iterator[float]:
    """Read the scores of a file. Each line is a number, or output of `seq2seq score` for a pair,
    whose score is its mean log-probability of a piece (-inf if null).

    Raises: DataError for any other line.
    """
    for line_no, line in enumerate(read_lines(path), start=1):
        where = f"{path}, line {line_no}"
        try:
            if line.startswith("{"):
                row = json_object(line, where)
                total = row["log_probability"]
                score = -math.inf if total is None else float(total / row["pieces"])
            else:
                score = float(line)
            if math.isnan(score):
                raise ValueError
        except (ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
            raise DataError(
                f"{where}: {line[:40]!r} is not a number, nor a line that seq2seq score prints"
            ) from error
        yield score

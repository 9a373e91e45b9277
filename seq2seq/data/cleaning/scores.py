"""Scores of pairs from files, one a line; two directions make one score."""

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2seq.base.errors import DataError
from seq2seq.data.text.formats import json_object
from seq2seq.data.text.lines import read_lines

Scores = NDArray[np.float64]


def read_scores(files: Sequence[Path]) -> Scores:
    """The score of each pair, (pairs,); the more, the better.

    Args:
        files: one, or those of both directions, which are joined by `dual_cross_entropy`.

    Raises: DataError for a line that holds no score, and for files of different lengths.
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
        forward, backward: the mean log-probability of a piece, -H, of each direction.
    """
    if -math.inf in (forward, backward):
        return -math.inf
    return (forward + backward) / 2 - abs(forward - backward)


def scores_of_lines(path: Path) -> Iterator[float]:
    """The scores of a file, each a number or what `seq2seq score` prints for a pair, of which the
    mean log-probability of a piece is taken: -inf where it is null.

    Raises: DataError for anything else.
    """
    for line_no, line in enumerate(read_lines(path), start=1):
        where = f"{path}, line {line_no}"
        try:
            score = score_of_json(line, where) if line.startswith("{") else float(line)
            if math.isnan(score):
                raise ValueError
        except (ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
            raise DataError(
                f"{where}: {line[:40]!r} is no score. Write a number, or what seq2seq score prints"
            ) from error
        yield score


def score_of_json(line: str, where: str) -> float:
    row = json_object(line, where)
    total = row["log_probability"]
    return -math.inf if total is None else float(total / row["pieces"])

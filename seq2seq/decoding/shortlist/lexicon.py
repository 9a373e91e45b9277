"""Marian's lexicons of pieces: lines of `target source probability`, as text or gzipped."""

import math
from pathlib import Path

import numpy as np

from seq2seq.base.errors import DataError
from seq2seq.data.text.lines import read_lines
from seq2seq.decoding.shortlist.build import PieceCounts
from seq2seq.text.tokenization.tokenizer import Tokenizers

FORM = "each line should be a target piece, a source piece and a probability, with spaces between"


def read_lexicon(path: Path, tokenizers: Tokenizers) -> tuple[PieceCounts, int]:
    """The pairs of a lexicon, and how many were left out because a piece is not the model's.

    It does not say which target pieces are frequent: vocabularies begin with these.

    Raises: DataError for a line of another form, and if no pair is of the model's pieces.
    """
    known = [{name: i for i, name in enumerate(side.symbols())} for side in tokenizers]
    pairs: dict[tuple[int, int], float] = {}
    left_out = 0
    for line_no, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        weight = parse_probability(fields)
        if weight is None:
            raise DataError(f"{path}, line {line_no}: {FORM}: Haus house 0.8")
        source, target = known[0].get(fields[1]), known[1].get(fields[0])
        if source is None or target is None:
            left_out += 1
        else:
            pairs[source, target] = weight
    if not pairs:
        raise DataError(
            f"{path}: none of its {left_out:,} pairs is of pieces of this model; {FORM}, and "
            "pieces should be named as in the model"
        )
    ids = np.array([*pairs], dtype=np.int64)
    frequency = -np.arange(tokenizers.target.size, dtype=np.float64)
    weights = np.array([*pairs.values()])
    return PieceCounts(ids[:, 0], ids[:, 1], weights, frequency), left_out


def parse_probability(fields: list[str]) -> float | None:
    """The last of three fields as a number of 0 to 1; None for anything else."""
    try:
        value = float(fields[2]) if len(fields) == 3 else math.nan
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None

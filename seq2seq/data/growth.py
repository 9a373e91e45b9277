"""Growth of rows: how many more pieces they have when their text is augmented."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seq2seq.data.augmented_text import augment, draw_numbers
from seq2seq.data.row_text import RowText

FITTING = 0.98  # the part of the rows that have no more pieces than expected


class Growth(NamedTuple):
    """Pieces of a row of length n: `factor` n on average, at most `factor` (n + `spread` sqrt n) in
    nearly all cases.
    """

    factor: float = 1.0
    spread: float = 0.0


def measure_growth(text: RowText, rows: Sequence[int], kind: int) -> list[Growth]:
    """The growth of sources and of targets by one kind of augmentation, from some rows."""
    pieces = []  # (2 before and after, 2 source and target) of each row
    for row in rows:
        before = text.read(row)
        if before is not None:
            pair = augment(before.pair, kind, draw_numbers(0, 0, row))
            pairs = before, before._replace(pair=pair)
            pieces.append([[len(ids) for ids in text.encode(each)] for each in pairs])
    if not pieces:
        return [Growth(), Growth()]
    growths = []
    for plain, grown in np.array(pieces, np.float64).transpose(2, 1, 0):
        factor = max(1.0, float(grown.sum() / plain.sum()))
        spread = float(np.quantile((grown / factor - plain) / np.sqrt(plain), FITTING))
        growths.append(Growth(factor, max(0.0, spread)))
    return growths

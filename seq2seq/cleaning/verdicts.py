"""Verdicts on the pairs of a corpus: kept, or the one reason for which a pair is left out."""

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from seq2seq.cleaning.rules import RULES, Limits, TextPair, first_broken
from seq2seq.cleaning.scores import Scores
from seq2seq.data.formats import Pair, hash_pair
from seq2seq.errors import DataError

KEPT, DUPLICATE, WORST = "kept", "duplicates", "best"
# What may become of a pair; verdicts are places in it. The last two need all pairs.
OUTCOMES = (KEPT, *RULES, DUPLICATE, WORST)

Verdicts = NDArray[np.uint8]


def judge(
    pairs: Iterable[Pair],
    languages: Pair,
    limits: Limits,
    duplicates: str = "pair",
    scores: Scores | None = None,
    best: float = 1.0,
) -> Verdicts:
    """The verdict on each pair, (pairs,). Reads them once; keeps nine bytes of each, then
    some sixty more for their order.

    Args:
        limits: of `first_broken`.
        duplicates: leave out a pair that occurs twice (`pair`), or one of which the target does
            (`target`); `off`: neither. The one with the best score stays, of these the first.
        scores: of each pair; the more, the better. None: all are as good.
        best: the share of the pairs left by all that which is kept, those with the best scores.

    Raises: DataError for another number of scores.
    """
    codes, hashes = bytearray(), array("Q")
    by_target = duplicates == "target"
    for source, target in pairs:
        broken = first_broken(TextPair((source, target), languages), limits)
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
        # Equal ones side by side, the best first; of equally good ones the first.
        order = np.lexsort((-known[kept], hashes_of_kept))
        is_first = np.diff(hashes_of_kept[order], prepend=~hashes_of_kept[order[:1]]) != 0
        verdicts[kept[order[~is_first]]] = OUTCOMES.index(DUPLICATE)
    kept = np.flatnonzero(verdicts == 0)
    order = np.argsort(-known[kept], kind="stable")
    verdicts[kept[order[round(best * len(kept)) :]]] = OUTCOMES.index(WORST)
    return verdicts

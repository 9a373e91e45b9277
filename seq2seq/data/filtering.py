"""Pairs that are left out of a corpus: those with an empty side, and those that are too long."""

from seq2seq.data.formats import Pair

KEPT, EMPTY, LONG = range(3)  # the outcomes of a pair


def judge_pair(pair: Pair, pieces: int, max_length: int) -> int:
    """KEPT, EMPTY or LONG; `pieces` are those of the longer side, its tag counted, EOS not."""
    if not (pair[0].strip() and pair[1].strip()):
        return EMPTY
    # A row of exactly `max_length` pieces is too long: EOS is one more.
    return KEPT if pieces < max_length else LONG

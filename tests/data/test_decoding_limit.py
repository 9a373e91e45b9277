"""The limit on the length of a translation, learnt from the training pairs."""

import numpy as np
import pytest

from seq2seq.data.prepare import learn_length_ratio
from seq2seq.decoding import Greedy


def learnt(source: list[int], target: list[int]) -> float:
    return learn_length_ratio(np.array(source, "<i4"), np.array(target, "<i4"), extra=10)


@pytest.mark.parametrize("factor", [1, 3, 40])
def test_every_pair_of_a_regular_corpus_fits_with_little_extra_room(factor: int) -> None:
    source = list(range(1, 60))
    search = Greedy(length_ratio=learnt(source, [factor * n for n in source]))
    for n in source:
        needed = factor * n + 1
        assert search.limit(n) >= needed
        assert search.limit(n) <= max(1.25 * needed, 1.5 * n) + 10, "and not much more"


def test_a_rare_pair_that_is_no_translation_changes_nothing() -> None:
    source = [20] * 5000
    assert learnt(source, [30] * 4999 + [5000]) == learnt(source, [30] * 5000)


def test_short_pairs_do_not_hide_how_lengths_grow() -> None:
    """The ten extra tokens alone would suffice for these pairs."""
    source = [2, 3, 4] * 20
    search = Greedy(length_ratio=learnt(source, [3 * n for n in source]))
    assert search.limit(100) >= 301


def test_short_translations_leave_room_for_more() -> None:
    assert learnt([30] * 50, [2] * 50) == 1.5

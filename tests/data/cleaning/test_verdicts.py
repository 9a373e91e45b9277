"""Verdicts on the pairs of a corpus, compared with plain loops."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.base.errors import DataError
from seq2seq.data.cleaning.rules import RULES, TextPair, first_broken
from seq2seq.data.cleaning.verdicts import (
    OUTCOMES,
    count_outcomes,
    dual_cross_entropy,
    example_rows,
    judge,
)

LIMITS = {name: rule.default for name, rule in RULES.items() if rule.default != "off"}
LANGUAGES = ("de", "en")
TEXTS = st.sampled_from(
    ["", "ein Hund", "a dog", "die Katze 20", "the cat 20", "ja", "ok " * 9, "\0"]
)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=30)
SCORES = st.floats(-9, 0, width=16)


def expected_outcomes(
    pairs: list[tuple[str, str]], duplicates: str, scores: list[float], best: float
) -> list[str]:
    """Verdicts by plain loops: one for the rules, one for duplicates, one for the worst pairs."""
    out = [first_broken(TextPair(pair, LANGUAGES), LIMITS) or "kept" for pair in pairs]
    keys = [pair if duplicates == "pair" else pair[1] for pair in pairs]
    if duplicates != "off":
        stays: dict[object, int] = {}
        for i, key in enumerate(keys):
            if out[i] == "kept" and (key not in stays or scores[i] > scores[stays[key]]):
                stays[key] = i
        for i, key in enumerate(keys):
            if out[i] == "kept" and stays[key] != i:
                out[i] = "duplicates"
    left = sorted((i for i in range(len(pairs)) if out[i] == "kept"), key=lambda i: -scores[i])
    for i in left[round(best * len(left)) :]:
        out[i] = "best"
    return out


@given(PAIRS, st.sampled_from(["pair", "target", "off"]), st.data())
def test_each_pair_is_kept_or_left_out_for_one_reason(
    pairs: list[tuple[str, str]], duplicates: str, data: st.DataObject
) -> None:
    scores = data.draw(st.lists(SCORES, min_size=len(pairs), max_size=len(pairs)))
    best = data.draw(st.sampled_from([1.0, 0.5, 0.3]))
    verdicts = judge(iter(pairs), LANGUAGES, LIMITS, duplicates, np.array(scores, float), best)
    found = [OUTCOMES[verdict] for verdict in verdicts]
    assert found == expected_outcomes(pairs, duplicates, scores, best)
    counts = {name: each["count"] for name, each in count_outcomes(verdicts).items()}
    assert counts == {name: n for name, n in Counter(found).items() if name != "kept"}


@given(PAIRS)
def test_a_clean_corpus_is_not_changed(pairs: list[tuple[str, str]]) -> None:
    verdicts = judge(pairs, LANGUAGES, LIMITS)
    kept = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if not verdict]
    assert not judge(kept, LANGUAGES, LIMITS).any()


def test_a_different_number_of_scores_is_refused() -> None:
    with pytest.raises(DataError, match="2 lines, but 1 pairs"):
        judge([("ein Hund", "a dog")], LANGUAGES, LIMITS, scores=np.zeros(2))


def test_a_few_examples_are_taken_from_the_whole_corpus() -> None:
    verdicts = np.array([0] * 1000 + [1] * 3, np.uint8)
    rows = sorted(example_rows(verdicts))
    assert len(rows) == 8 + 3 and rows[0] == 0 and rows[7] == 999 and rows[8:] == [1000, 1001, 1002]


@given(SCORES, SCORES)
def test_dual_cross_entropy_is_that_of_the_paper(forward: float, backward: float) -> None:
    # Equations 1 and 2 of Junczys-Dowmunt 2018, with H = -log-probability per piece.
    h_a, h_b = -forward, -backward
    adq = math.exp(-(abs(h_a - h_b) + 0.5 * (h_a + h_b)))
    assert math.exp(dual_cross_entropy(forward, backward)) == pytest.approx(adq)
    assert dual_cross_entropy(forward, -math.inf) == -math.inf

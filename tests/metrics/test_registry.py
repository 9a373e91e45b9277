"""The metrics that sacreBLEU lacks: exact match and symbol error rate."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.metrics.registry import ExactMatch, build_metrics, count_edits, find_metrics
from seq2seq.metrics.scores import CorpusScore, corpus_scores


def scores(hypotheses: list[str], references: list[list[str | None]]) -> dict[str, CorpusScore]:
    metrics = build_metrics(find_metrics(["exact", "ser"]), references)
    return {score.name: score for score in corpus_scores(hypotheses, metrics, resamples=20)}


def naive(a: list[str], b: list[str]) -> int:
    """The recursion that defines the distance."""
    if not a or not b:
        return len(a) + len(b)
    change = naive(a[1:], b[1:]) + (a[0] != b[0])
    return min(change, naive(a[1:], b) + 1, naive(a, b[1:]) + 1)


def test_edits_are_those_of_the_definition_for_all_short_texts() -> None:
    texts = [list(word) for length in range(4) for word in product("xy", repeat=length)]
    for a, b in product(texts, texts):
        assert count_edits(" ".join(a), " ".join(b)) == naive(a, b)


symbols = st.lists(st.sampled_from(["AH0", "T", "K"]), max_size=30)


@settings(deadline=None, max_examples=30)
@given(symbols, symbols, symbols)
def test_edits_are_a_distance(a: list[str], b: list[str], c: list[str]) -> None:
    x, y, z = map(" ".join, (a, b, c))
    assert count_edits(x, x) == 0
    assert count_edits(x, y) == count_edits(y, x)
    assert count_edits(x, z) <= count_edits(x, y) + count_edits(y, z)


def test_scores_of_a_few_words_by_pencil_and_paper() -> None:
    by_name = scores(["K AE1 T", "T  AH0 ", "B B B B"], [["K AE1 T", "T AH0", "B A"]])
    assert by_name["exact"].value == pytest.approx(100 * 2 / 3)  # white space aside
    assert by_name["SER"].value == pytest.approx(100 * 3 / 7)


def test_of_several_references_the_nearest_counts() -> None:
    by_name = scores(["T AH0 M"], [["T EY1 M OW2 X"], ["T AH0 M"]])
    assert (by_name["exact"].value, by_name["SER"].value) == (100, 0)
    assert "nrefs:2|" in by_name["SER"].signature
    by_name = scores(["A B", "C"], [["A X", "C"], [None, "D"]])
    assert by_name["SER"].value == pytest.approx(100 / 3)
    assert "nrefs:var|" in by_name["SER"].signature


def test_bad_outputs_may_need_more_edits_than_there_are_symbols() -> None:
    assert scores(["X Y Z"], [["A"]])["SER"].value == 300
    assert scores([""], [["A B"]])["SER"].value == 100


def test_scores_have_signatures_and_intervals() -> None:
    by_name = scores(["A"] * 5 + ["B"] * 5, [["A"] * 10])
    assert "|unit:line|case:mixed|" in by_name["exact"].signature
    interval = by_name["exact"].interval
    assert interval is not None and "bs:20|seed:12345" in interval.signature
    assert interval.half_width > 0 and abs(interval.mean - 50) < 2 * interval.half_width


def test_a_metric_of_symbols_is_printed_under_its_own_label() -> None:
    class Halves(ExactMatch):
        label = "halves"

    kind = Halves.kind()
    metrics = build_metrics([kind], [["a", "b"]])
    (score,) = corpus_scores(["a", "c"], metrics)
    assert (kind.label, score.name, score.value) == ("halves", "halves", 50.0)

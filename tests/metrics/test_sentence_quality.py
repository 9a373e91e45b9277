"""The quality of sentences."""

import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.metrics.sentence_quality import (
    SentenceQuality,
    extremes,
    sentence_quality,
)

UNIT = st.floats(0, 1, width=16)
JUDGED = st.lists(
    st.builds(
        SentenceQuality,
        st.integers(1, 99),
        st.just("s"),
        st.just("h"),
        st.text(max_size=5),
        st.none() | UNIT,
        st.floats(0, 100, width=16),
    ),
    max_size=40,
)


def test_the_quality_of_a_sentence_is_that_of_sacrebleu() -> None:
    hypotheses, references = ["a dog runs", "", "yes"], ["the dog runs", "no", "yes"]
    expected = [
        sacrebleu.sentence_chrf(h, [r]).score for h, r in zip(hypotheses, references, strict=True)
    ]
    assert sentence_quality(hypotheses, references) == expected
    assert expected[2] == 100


@given(JUDGED, st.integers(0, 10))
def test_no_sentence_is_among_the_worst_and_the_best(
    rows: list[SentenceQuality], count: int
) -> None:
    rows = [j._replace(line_no=n) for n, j in enumerate(rows, 1)]
    worst, best = extremes(rows, count)
    assert len(worst) == len(best) <= count
    assert not set(worst) & set(best)
    if worst:
        assert max(j.quality for j in worst) <= min(j.quality for j in best)
        assert worst[0].quality == min(j.quality for j in rows)
        assert best[0].quality == max(j.quality for j in rows)

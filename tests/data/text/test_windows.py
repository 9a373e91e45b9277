from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.batches.padding import pad_rows
from seq2seq.data.text.windows import batch_by_length, windows


@given(st.lists(st.text(max_size=9)), st.integers(1, 5), st.integers(1, 20))
def test_windows_hold_all_texts_in_order_and_few_at_a_time(
    texts: list[str], max_texts: int, limit: int
) -> None:
    result = list(windows(texts, max_texts, len, limit))
    assert [text for window in result for text in window] == texts
    for window in result:
        assert 1 <= len(window) <= max_texts
        assert sum(map(len, window[:-1])) < limit


def test_texts_after_a_window_are_not_read_yet() -> None:
    texts = count()
    assert list(islice(windows(texts, 3, lambda _: 1), 2)) == [[0, 1, 2], [3, 4, 5]]
    assert next(texts) == 6


def test_batches_are_of_similar_lengths_and_bounded() -> None:
    lengths = [3, 9, 4, 20, 4, 1]
    batches = list(batch_by_length(lengths, 9))
    assert sorted(i for batch in batches for i in batch) == list(range(6))
    assert [[lengths[i] for i in batch] for batch in batches] == [[20], [9], [4, 4], [3, 1]]


def test_rows_are_filled_up_at_the_right() -> None:
    assert pad_rows([[5, 6, 7], [8]]).tolist() == [[5, 6, 7], [8, 0, 0]]

"""Masks of visibility, by hand."""

from seq2seq.functional import causal_mask


def test_a_query_sees_itself_and_what_is_before_it() -> None:
    assert causal_mask(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_later_queries_see_the_keys_that_were_there_before_them() -> None:
    assert causal_mask(2, 5, 3).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_a_query_before_all_keys_sees_none() -> None:
    assert causal_mask(2, 1, -1).int().tolist() == [[0], [1]]

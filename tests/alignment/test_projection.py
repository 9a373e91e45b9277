"""Weights of pieces as weights of words, and links between words as shares of pieces."""

from typing import Any

import pytest
import torch
from helpers.builders import assert_equal
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2seq.alignment.links import parse_links, words
from seq2seq.alignment.projection import project_links, word_weights


def spans_of(text: str) -> list[tuple[int, int]]:
    """Each character except spaces is a piece."""
    return [(i, i + 1) for i, character in enumerate(text) if character != " "]


@pytest.mark.parametrize(
    ("source", "target", "source_spans", "target_spans", "weights", "expected"),
    [
        pytest.param(
            *("ab c", "x yz", None, None),
            [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.1, 0.1, 0.8, 0], [0.9, 0, 0, 0.1]],
            [[0.3, 0.3, 0.4], [0.4, 0.5, 0.1]],
            id="source pieces are added and target pieces averaged",
        ),
        pytest.param(
            *("我", "你 y", [(0, 1), (0, 1)], [(0, 1), (0, 1), (2, 3)]),
            [[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0, 0.1, 0.9], [0, 0, 1]],
            [[0.65, 0.35], [0.1, 0.9]],
            id="pieces with equal spans each count",
        ),
        pytest.param(  # after b no word follows, so the last space belongs to b
            *("a  b ", "x y", [(0, 1), (1, 2), (3, 4), (4, 5)], [(0, 1), (1, 2), (2, 3)]),
            [
                [0.1, 0.2, 0.3, 0.25, 0.15],
                [0.3, 0.1, 0.2, 0, 0.4],
                [0.7, 0.1, 0, 0, 0.2],
                [0, 0, 0, 0, 1],
            ],
            [[0.1, 0.75, 0.15], [0.5, 0.2, 0.3]],
            id="a lone space belongs to the word that follows",
        ),
        pytest.param(
            *("a b", "x", [(0, 1), (1, 1), (2, 3)], None),
            [[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1]],
            [[0.1, 0.5, 0.4]],
            id="an empty span belongs to the word that follows",
        ),
        pytest.param(
            *("a", "x y", None, [(0, 1)], [[0.5, 0.5], [0, 1]], [[0.5, 0.5], [0, 0]]),
            id="a word without a piece has a row of zeros",
        ),
        pytest.param(  # three characters in the first word and one in the second
            *("abc d", "x", [(0, 5)], None, [[0.8, 0.2], [0, 1]], [[0.6, 0.2, 0.2]]),
            id="a piece over two words is shared by its characters",
        ),
        pytest.param(
            *("a b", "a b", [(0, 1), (1, 3)], [(0, 1), (1, 3)]),
            [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0, 0, 1]],
            [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]],
            id="a leading space in a piece changes nothing",
        ),
        pytest.param(
            *("", "x", None, None, [[1], [1]], [[1]]), id="a text without words has an empty map"
        ),
    ],
)
def test_weights_of_pieces_are_gathered_by_words(
    source: str, target: str, source_spans: Any, target_spans: Any, weights: Any, expected: Any
) -> None:
    spans = source_spans or spans_of(source), target_spans or spans_of(target)
    pair = words(source), words(target)
    by_word = word_weights(torch.tensor(weights), spans, pair)
    assert_close(by_word, torch.tensor(expected, dtype=torch.float32))


def test_weights_of_whole_words_pass_through_and_heads_stay_apart() -> None:
    weights = torch.rand(2, 3, 4, 5)
    texts = "a b c d", "x y z"
    spans = spans_of(texts[0]), spans_of(texts[1])
    by_word = word_weights(weights, spans, (words(texts[0]), words(texts[1])))
    assert_close(by_word, weights[..., :-1, :])


@given(st.integers(1, 6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_rows_that_add_up_to_one_still_do(source: int, target: int, random: Any) -> None:
    texts = ["".join(random.choice("ab ") for _ in range(n)) + "." for n in (source, target)]
    spans = [[(i, i + 1) for i in range(len(text))] for text in texts]
    weights = torch.rand(len(spans[1]) + 1, len(spans[0]) + 1).softmax(-1)
    pair = words(texts[0]), words(texts[1])
    by_word = word_weights(weights, (spans[0], spans[1]), pair)
    assert_close(by_word.sum(-1), torch.ones(len(pair[1])))


def test_weights_without_the_end_symbols_are_refused() -> None:
    assert word_weights(torch.ones(1, 1), ([], []), ([], [])).shape == (0, 1)
    with pytest.raises(RuntimeError, match="size mismatch|cannot be multiplied"):
        word_weights(torch.ones(1, 1), ([(0, 1)], [(0, 1)]), (words("a"), words("x")))


# "ab c" is cut into a, b, " c"; "xy z" into xy, " z". Spans leave the space out.
SPANS = [(0, 1), (1, 2), (3, 4)], [(0, 2), (3, 4)]
WORDS = words("ab c"), words("xy z")


def shares(line: str, to_end: bool = True, target_spans: Any = SPANS[1]) -> list[list[float]]:
    spans = SPANS[0], target_spans
    return project_links(parse_links(line), spans, WORDS, to_end=to_end).tolist()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0-0 1-1", [[0.5, 0.5, 0, 0], [0, 0, 1, 0]]),  # a word is divided over its pieces
        # The first half goes to two pieces of one word, the second to the only piece of the other.
        ("0-0 1-0 1-1", [[0.25, 0.25, 0.5, 0], [0, 0, 1, 0]]),
        ("0-0", [[0.5, 0.5, 0, 0], [0, 0, 0, 1]]),  # a word without links attends to EOS
        ("", [[0] * 4] * 2),  # a pair without links has no shares
        # Possible links count for a word that has no sure one.
        ("0-0 1p0 1p1", [[0.5, 0.5, 0, 0], [0, 0, 1, 0]]),
    ],
)
def test_a_target_word_is_divided_evenly_over_the_words_it_is_linked_to(
    line: str, expected: list[list[float]]
) -> None:
    assert shares(line) == expected


def test_every_piece_of_a_target_word_looks_where_its_word_does() -> None:
    spans = [(0, 1), (1, 2), (3, 4)]
    assert shares("1-0 0-1", target_spans=spans) == [[0, 0, 1, 0], [0, 0, 1, 0], [0.5, 0.5, 0, 0]]
    assert shares("0-0", to_end=False) == [[0.5, 0.5, 0, 0], [0, 0, 0, 0]]


def test_a_piece_of_two_words_counts_for_each_as_far_as_it_overlaps() -> None:
    # The piece "xy z" holds two characters of the first word and one of the second.
    (row,) = shares("0-0 1-1", target_spans=[(0, 4)])
    assert row == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("line", ["0-0 1-1", "0-0 1-0", "1-0 0-0 1-1", "0-1"])
def test_reading_words_from_the_shares_gives_the_links_back(line: str) -> None:
    """`seq2seq align` reads from a perfect head the links it was trained on."""
    whole = torch.tensor([*shares(line), [0.0, 0, 0, 1]])
    read = word_weights(whole, SPANS, WORDS)
    links = {(i, j) for j in range(2) for i in range(2) if read[j, i] > 0}
    assert links == parse_links(line).sure
    assert_equal(read.sum(-1), torch.ones(2))

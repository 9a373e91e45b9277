import gzip
from pathlib import Path

import pytest
import torch
from helpers.builders import error_rate
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.alignment.links import (
    NEIGHBOUR,
    PRIOR,
    LinkCounts,
    Links,
    check_all_links,
    check_line_count,
    compete,
    extract_links,
    format_links,
    parse_links,
    read_alignment,
    spans_to_words,
    words,
)
from seq2seq.base.errors import DataError

link_sets = st.sets(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=20)


def tensor(*rows):
    return torch.tensor(rows, dtype=torch.float32)


def test_words_are_split_at_white_space_and_have_positions():
    assert words(" Ein  Hund\tläuft.\n") == [("Ein", 1, 4), ("Hund", 6, 10), ("läuft.", 11, 17)]
    assert words("") == words(" \n") == []
    assert [w.text for w in words("40\u00a0km weit")] == ["40\u00a0km", "weit"]


@given(st.text())
def test_words_are_the_text_without_its_white_space(text):
    split = words(text)
    assert all(text[w.start : w.end] == w.text for w in split)
    assert "".join(w.text for w in split) == text.translate(dict.fromkeys(map(ord, " \t\n\r\f\v")))


def test_pieces_of_one_character_are_one_word():
    # The second character is three bytes, one piece each; spaces belong to the next piece, or are
    # a separate piece; the last piece is empty.
    spans = [(0, 1), (1, 2), (1, 2), (1, 2), (2, 4), (4, 5), (5, 5)]
    assert spans_to_words("我爱 中 ", spans) == [("我", 0, 1), ("爱", 1, 2), ("中", 3, 4)]
    assert spans_to_words("ab我", [(0, 3), (2, 3)]) == [("ab我", 0, 3)]


def test_each_target_word_is_linked_to_its_strongest_source_word():
    assert extract_links(tensor([0.1, 0.7, 0.2, 0], [0.6, 0.1, 0.3, 0])) == {(1, 0), (0, 1)}
    # Word 0 looks at the end most, word 1 at a source word, word 2 as much at either.
    weights = tensor([0.2, 0.3, 0.5], [0.1, 0.5, 0.4], [0.4, 0.2, 0.4])
    assert extract_links(weights) == {(1, 1), (0, 2)}
    # A row without weight has no link.
    assert extract_links(tensor([0.0, 0.0], [float("nan"), float("nan")])) == set()
    assert extract_links(torch.ones(2, 1)) == set()
    with pytest.raises(TypeError):  # links of several heads at once
        extract_links(torch.ones(2, 3, 3))


def competition(weights):
    """The definition of `compete`, word by word."""
    words = [row[:-1] for row in weights]
    sums = [sum(column) + PRIOR for column in zip(*words, strict=True)]
    shares = [[w / total for w, total in zip(row, sums, strict=True)] for row in words]
    parts = [[s / max(sum(row), 1e-9) for s in row] for row in shares]

    def at(j, i):
        return parts[j][i] if 0 <= j < len(parts) and 0 <= i < len(sums) else 0.0

    def support(j, i):
        return at(j, i) + NEIGHBOUR * (at(j - 1, i - 1) + at(j + 1, i + 1)) if words[j][i] else 0.0

    return [
        [*(support(j, i) for i in range(len(sums))), 2.0 * (row[-1] > max(row[:-1]))]
        for j, row in enumerate(weights)
    ]


def test_source_words_compete_for_target_words():
    weights = [[0.3, 0.7, 0.0], [0.05, 0.75, 0.2], [0.0, 0.4, 0.6]]
    several = compete(torch.stack([tensor(*weights), tensor(*weights[::-1])]))
    expected = [competition(weights), competition(weights[::-1])]
    torch.testing.assert_close(several, torch.tensor(expected, dtype=torch.float64))
    # Word 1 attracts all target words, but word 0 has more of its own weight on the first; the
    # third looks at the end.
    assert extract_links(tensor(*weights)) == {(1, 0), (1, 1)}
    assert extract_links(several[0]) == {(0, 0), (1, 1)}


def test_of_a_single_target_word_the_largest_weight_is_its_link():
    assert extract_links(compete(tensor([0.2, 0.5, 0.3, 0.0]))) == {(1, 0)}
    assert extract_links(compete(tensor([0.2, 0.0, 0.0, 0.8]))) == set()
    assert (
        extract_links(compete(torch.zeros(2, 1)))
        == extract_links(compete(torch.zeros(2, 3)))
        == set()
    )


def test_a_threshold_drops_the_links_of_unfocused_words():
    # Of what is not on the end, the largest are 0.4 of 0.8 and 0.3 of 0.8.
    weights = tensor([0.4, 0.2, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2])
    assert extract_links(weights, threshold=0.375) == {(0, 0), (1, 1)}
    assert extract_links(weights, threshold=0.5) == {(0, 0)}
    assert extract_links(weights, threshold=0.6) == set()


def test_near_also_links_words_with_almost_the_largest_weight() -> None:
    weights = torch.tensor([[0.4, 0.2, 0.3, 0.1], [0.25, 0.25, 0.1, 0.4], [0.5, 0.0, 0.0, 0.5]])
    assert extract_links(weights) == {(0, 0), (0, 2)}
    assert extract_links(weights, near=0.7) == {(0, 0), (2, 0), (0, 2)}
    assert extract_links(weights, near=0.5) == {(0, 0), (1, 0), (2, 0), (0, 2)}
    # A word with most weight on the end has no link, however large its other weights together.
    assert (0, 1) not in extract_links(weights, near=0.1)
    for near in (0.0, 1.5):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            extract_links(weights, near=near)


@given(link_sets, link_sets)
def test_parsing_reverses_formatting(sure, possible):
    assert parse_links(format_links(sure, possible)) == Links(sure, sure | possible)


def test_links_are_written_in_order_and_sure_ones_once():
    assert format_links({(10, 0), (2, 1)}, {(2, 1), (2, 0)}) == "2p0 2-1 10-0"


def test_both_notations_of_a_possible_link_are_read():
    assert parse_links(" 0-1\t2p3 4?5\n") == ({(0, 1)}, {(0, 1), (2, 3), (4, 5)})


@pytest.mark.parametrize(
    "damage",
    ["3", "1-", "-1-2", "1--2", "1-2-3", "1-2,3-4", "a-b", "1x2", "１-2", "1-2:0.5", "9" * 5000],
)
def test_a_damaged_link_names_file_and_line(damage, tmp_path):
    path = tmp_path / "reference.align"
    path.write_text(f"0-0\n\n0-0 {damage} 1-1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"reference\.align:3: .* is not a link\. Write i-j"):
        read_alignment(path)


def test_an_alignment_file_has_a_line_for_every_pair(tmp_path):
    plain, packed = tmp_path / "a.align", tmp_path / "a.align.gz"
    content = "\ufeff0-0 1p1\r\n\r\n2-0".encode()
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content + b"\n"))
    expected = [({(0, 0)}, {(0, 0), (1, 1)}), (set(), set()), ({(2, 0)}, {(2, 0)})]
    assert read_alignment(plain) == read_alignment(packed) == expected
    plain.write_bytes(b"")
    assert read_alignment(plain) == []


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    broken, packed = tmp_path / "broken.align", tmp_path / "broken.align.gz"
    whole = gzip.compress(b"0-0\n" * 100)
    for path, content, where in (
        (broken, b"0-0\n1-1 \xff\n", r"broken\.align:2:"),
        (packed, whole[:-9], r"broken\.align\.gz"),
        (packed, whole[:12] + b"\xff\xff" + whole[14:], r"broken\.align\.gz"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=where):
            read_alignment(path)
    with pytest.raises(DataError, match="nowhere"):
        read_alignment(Path("nowhere"))


def test_error_rate_by_pencil_and_paper():
    # Sentence 1: A & S = 1, A & P = 2, |A| = 3, |S| = 2. Sentence 2: 0, 0, 1, 1. So 1 - 3 / 7.
    predicted = [{(0, 0), (1, 1), (2, 2)}, {(0, 1)}]
    sure = [{(0, 0), (3, 3)}, {(0, 0)}]
    possible = [{(0, 0), (1, 1), (3, 3)}, {(0, 0)}]
    assert error_rate(predicted, sure, possible) == pytest.approx(4 / 7)
    # A sure link is possible even where the possible ones do not repeat it.
    assert error_rate(predicted, sure, [{(1, 1)}, set()]) == pytest.approx(4 / 7)


@given(link_sets, link_sets)
def test_error_rate_is_zero_between_sure_and_possible_links(sure, possible):
    every = sure | possible
    assert error_rate([sure], [sure], [possible]) == 0
    assert error_rate([every], [sure], [possible]) == 0
    assert error_rate([{(0, 201)}], [{(201, 0)}], [{(201, 0)}]) == 1


def test_precision_and_recall_by_pencil_and_paper() -> None:
    # Predicted: 0-0 is sure, 1-1 possible, 2-2 neither. 3-3 is sure and missed.
    counts = LinkCounts.of({(0, 0), (1, 1), (2, 2)}, {(0, 0), (3, 3)}, {(1, 1)})
    assert counts == (3, 2, 1, 2)
    assert (counts.precision, counts.recall) == (pytest.approx(2 / 3), 1 / 2)
    assert counts.aer == pytest.approx(1 - 3 / 5)


def test_counts_of_a_corpus_are_added_before_they_are_divided() -> None:
    counts = [LinkCounts(1, 1, 1, 1), LinkCounts(3, 5, 0, 0)]
    assert LinkCounts.total(counts) == (4, 6, 1, 1)
    assert LinkCounts.total([]) == (0, 0, 0, 0)


def test_where_nothing_is_predicted_or_sure_nothing_is_divided_by_zero() -> None:
    none = LinkCounts(0, 0, 0, 0)
    assert (none.aer, none.precision, none.recall) == (0, 1, 1)
    wrong = LinkCounts(2, 3, 0, 0)
    assert (wrong.aer, wrong.precision, wrong.recall) == (1, 0, 0)


@given(link_sets, link_sets)
def test_where_all_links_are_sure_the_error_rate_is_one_minus_f1(predicted: set, sure: set) -> None:
    counts = LinkCounts.of(predicted, sure, sure)
    both = counts.precision + counts.recall
    if predicted and sure:
        f1 = 2 * counts.precision * counts.recall / both if both else 0
        assert counts.aer == pytest.approx(1 - f1)


SIZES = [(2, 3), (0, 1), (4, 1)]
PATH = Path("reference.align")


def check(*lines: str) -> None:
    links = [parse_links(line) for line in lines]
    check_line_count(PATH, len(links), len(SIZES), "a and b")
    check_all_links(PATH, links, SIZES, "a and b")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ("0-0", "", "4-0"),
            r"reference\.align:3: link 4-0 .* no source word 4; its last word is 3",
        ),
        (("0-3", "", ""), r"reference\.align:1: link 0-3 .* no target word 3; its last word is 2"),
        (("", "0?0", ""), r"reference\.align:2: link 0-0 .* no source word 0; it has no word"),
        (("0-0", ""), r"reference\.align has 2 lines of links for 3 pairs of a and b"),
        (("0-0", "", "", ""), r"reference\.align has 4 lines of links for 3 pairs of a and b"),
    ],
)
def test_links_beyond_the_text_are_named_by_file_and_line(
    lines: tuple[str, ...], message: str
) -> None:
    check("0-0 1-2", "", "3p0")  # up to the last word of both sides
    with pytest.raises(DataError, match=message):
        check(*lines)

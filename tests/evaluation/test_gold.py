"""Files of links for the pairs they belong to."""

from pathlib import Path

import pytest

from seq2seq.errors import DataError
from seq2seq.evaluation.gold import read_links

SIZES = [(2, 3), (1, 1), (4, 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gold.align"


def test_links_up_to_the_last_word_of_both_sides_are_read(path: Path) -> None:
    path.write_text("0-0 1-2\n\n3p0\n")
    assert read_links(path, SIZES, "a and b") == [
        ({(0, 0), (1, 2)}, {(0, 0), (1, 2)}),
        (set(), set()),
        (set(), {(3, 0)}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n\n4-0\n", r"gold\.align:3: link 4-0 is out of range: word 4 of a source of 4 words"),
        ("0-3\n\n\n", r"gold\.align:1: link 0-3 is out of range: word 3 of a target of 3 words"),
        ("\n1?0\n\n", r"gold\.align:2: link 1-0 is out of range: word 1 of a source of 1 words"),
        ("0-0\n\n", r"gold\.align has 2 lines of links for 3 pairs of a and b"),
        ("0-0\n\n\n\n", r"gold\.align has 4 lines of links for 3 pairs of a and b"),
        ("0-0\n0:0\n\n", r"gold\.align:2: '0:0' is not a link"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_links(path, SIZES, "a and b")

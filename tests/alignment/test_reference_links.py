"""Links and the pairs they belong to."""

from pathlib import Path

import pytest

from seq2seq.alignment.links import check_count, check_range, parse_links
from seq2seq.errors import DataError

SIZES = [(2, 3), (0, 1), (4, 1)]
PATH = Path("gold.align")


def check(*lines: str) -> None:
    links = [parse_links(line) for line in lines]
    check_count(PATH, len(links), len(SIZES), "a and b")
    check_range(PATH, links, SIZES, "a and b")


def test_links_up_to_the_last_word_of_both_sides_fit() -> None:
    check("0-0 1-2", "", "3p0")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("0-0", "", "4-0"), r"gold\.align:3: link 4-0 .* no source word 4; its last word is 3"),
        (("0-3", "", ""), r"gold\.align:1: link 0-3 .* no target word 3; its last word is 2"),
        (("", "0?0", ""), r"gold\.align:2: link 0-0 .* no source word 0; it has no word"),
        (("0-0", ""), r"gold\.align has 2 lines of links for 3 pairs of a and b"),
        (("0-0", "", "", ""), r"gold\.align has 4 lines of links for 3 pairs of a and b"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check(*lines)

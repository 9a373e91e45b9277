"""The page of a comparison in a real browser, on a narrow and on a wide window."""

from pathlib import Path

import pytest
from helpers import browser
from helpers.browser import Browser
from helpers.tiny_runs import demo_lines, demo_run

from seq2seq.comparison.maps import Sentence
from seq2seq.comparison.page import write_comparison
from seq2seq.comparison.results import judge_groups, read_test
from seq2seq.comparison.rows import build_row, verdicts
from seq2seq.comparison.runs import Group, read_run

window = browser.window


@pytest.mark.parametrize("width", [390, 1280])
def test_the_answer_comes_first_and_nothing_is_wider_than_the_window(
    base: Path, tmp_path: Path, window: Browser, width: int
) -> None:
    run = read_run(demo_run(base))
    groups = [Group("mha", [run, run]), Group("an <other> mechanism with a long name", [run])]
    test = read_test(None, None, run.saved.config["data"])
    results = judge_groups(groups, test, None, tmp_path)
    rows = [
        build_row(group, result, None, run.seconds)
        for group, result in zip(groups, results, strict=True)
    ]
    sentence = Sentence(demo_lines("test", "de", 1)[0], None, "")
    page = tmp_path / "page.html"
    write_comparison(page, groups, rows, sentence, "Two runs.", ["a note"])
    window.resize(width)
    window.open(page)
    assert window.run("document.documentElement.scrollWidth") == width
    (answer,) = verdicts(rows)
    assert window.run("document.querySelector('.verdicts').innerText") == answer
    assert window.run("document.querySelector('.verdicts').getBoundingClientRect().bottom") < 500
    # Tables scroll inside the page, and their names stay.
    table = "document.querySelector('.wide')"
    window.run(f"{table}.scrollLeft = 200")
    left = window.run(f"{table}.querySelectorAll('td')[0].getBoundingClientRect().left")
    assert left == window.run(f"{table}.getBoundingClientRect().left")
    assert not window.complaints and len(window.requests) <= 1

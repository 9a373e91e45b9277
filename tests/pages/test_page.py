"""The page of alignments, in a real browser."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers import alignments as shown
from helpers import browser
from helpers.alignments import FIRST, HOSTILE, random_alignment
from helpers.browser import Browser

from seq2seq.alignment.choice import Alignment, Choice
from seq2seq.alignment.links import Link, format_links, words
from seq2seq.pages.labels import to_label
from seq2seq.pages.page import write_page

window, alignments = browser.window, shown.alignments

CHOICES = [Choice(*c) for c in product(range(2), range(2), (None, 0, 1, 2))]


@pytest.fixture
def shown(window: Browser, alignments: list[Alignment], tmp_path: Path) -> Browser:
    """A window in which these alignments are open."""
    write_page(tmp_path / "page.html", alignments, FIRST)
    window.resize(1200)
    window.open(tmp_path / "page.html")
    return window


def choose(shown: Browser, choice: Choice) -> None:
    head = 0 if choice.head is None else choice.head + 1
    for name, value in (("shift", choice.shift), ("layer", choice.layer), ("head", head)):
        shown.choose(f"select[name={name}]", str(value))


def links_of(shown: Browser, selector: str) -> set[Link]:
    """The pairs of words that those elements stand for which can be seen."""
    pairs = shown.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.checkVisibility())"
        ".map(e => [+e.dataset.i, +e.dataset.j])"
    )
    return {(i, j) for i, j in pairs}


def word(side: str, index: int) -> str:
    return f".line .word[data-side={side}][data-index='{index}']"


def texts(shown: Browser, selector: str) -> list[str]:
    contents: list[str] = shown.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.firstChild.textContent)"
    )
    return contents


def held(shown: Browser) -> list[Any]:
    """Side and index of the held word; empty if there is none."""
    place: list[Any] = shown.run(
        "[...document.querySelectorAll('.word.held')].flatMap(w => [w.dataset.side, "
        "+w.dataset.index])"
    )
    return place


def test_a_page_opens_with_the_choice_it_was_given(
    shown: Browser, alignments: list[Alignment]
) -> None:
    names = "['shift', 'layer', 'head'].map(n => document.querySelector(`[name=${n}]`).value)"
    assert shown.run(names) == ["1", "0", "3"]
    assert links_of(shown, ".curves .link") == alignments[0].links(FIRST)
    assert shown.complaints == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_pointing_at_a_word_shows_exactly_its_links(
    shown: Browser, alignments: list[Alignment], side: str
) -> None:
    place = ["source", "target"].index(side)
    links = alignments[0].links(FIRST)
    for index in range(len(getattr(alignments[0], side))):
        shown.hover(word(side, index))
        expected = {link for link in links if link[place] == index}
        assert links_of(shown, ".curves .link") == expected
        assert {link[place] for link in links_of(shown, ".curves path")} <= {index}


def test_layer_head_and_reading_change_the_links_as_the_toolkit_says(
    shown: Browser, alignments: list[Alignment]
) -> None:
    seen = []
    for choice in CHOICES:
        choose(shown, choice)
        links = alignments[0].links(choice)
        assert links_of(shown, ".curves .link") == links
        line = shown.run("document.querySelector('.pharaoh').textContent")
        assert line == (format_links(links) or "no links")
        seen.append(frozenset(links))
    assert len(set(seen)) > len(CHOICES) // 2  # or choosing would have proved nothing


def test_the_percentages_beside_the_words_are_the_weights(
    shown: Browser, alignments: list[Alignment]
) -> None:
    shown.choose("[name=cutoff]", "0")
    for choice in (Choice(0, 1, None), Choice(1, 1, 0)):
        choose(shown, choice)
        for j, row in enumerate(alignments[0].map(choice).tolist()):
            shown.hover(word("target", j))
            percents = shown.run(
                "[...document.querySelectorAll('.source.line small')]"
                ".map(e => parseInt(e.textContent))"
            )
            # Steps of 1/255 and of a hundredth: together less than one.
            for percent, weight in zip(percents, row, strict=True):
                assert abs((percent or 0) - 100 * weight) < 0.7


def test_a_weight_below_the_limit_is_hidden_unless_it_is_a_link(
    shown: Browser, alignments: list[Alignment]
) -> None:
    map = alignments[0].map(FIRST)
    shown.choose("[name=cutoff]", "50")
    large = {(i, j) for j, row in enumerate(map.tolist()) for i, w in enumerate(row) if w >= 0.51}
    expected = large | alignments[0].links(FIRST)
    drawn = links_of(shown, ".curves path")
    assert expected <= drawn
    assert len(drawn) < map.numel()


def test_the_heat_map_marks_the_same_links(shown: Browser, alignments: list[Alignment]) -> None:
    shown.run("document.querySelector('[value=map]').click()")
    choose(shown, Choice(0, 1, 1))
    links = alignments[0].links(Choice(0, 1, 1))
    assert links_of(shown, ".map td.link") == links
    assert links_of(shown, ".curves path") == set()
    shown.hover(".map td[data-j='2'][data-i='1']")
    assert {(e, 2) for e in range(6)} == links_of(shown, ".map td.shown")


def test_another_pair_is_shown_when_it_is_chosen(
    shown: Browser, alignments: list[Alignment]
) -> None:
    shown.run("document.querySelector('[name=next]').click()")
    assert texts(shown, ".target .word") == ["一只", "狗", "在", "跑"]
    assert links_of(shown, ".curves .link") == alignments[1].links(FIRST)


def test_the_words_can_be_walked_through_by_keys(shown: Browser) -> None:
    shown.run("document.querySelector('[name=view]').focus()")
    shown.press("Tab")
    assert held(shown) == ["source", 0]
    shown.press("ArrowRight")
    shown.press("ArrowRight")
    assert held(shown) == ["source", 2]
    shown.press("End")
    assert held(shown) == ["source", 5]  # the end of the source has a place of its own
    shown.press("ArrowDown")
    assert held(shown)[0] == "target"
    shown.press("Home")
    assert held(shown) == ["target", 0]
    shown.press("Escape")
    assert held(shown) == []


def test_across_leads_to_the_linked_word(shown: Browser, alignments: list[Alignment]) -> None:
    links = alignments[0].links(FIRST)
    i, j = min(links, key=lambda link: link[1])
    shown.run(f'document.querySelector("{word("target", j)}").focus()')
    shown.press("ArrowUp")
    assert held(shown) == ["source", i]


def test_a_right_to_left_line_starts_at_the_right_and_is_walked_that_way(shown: Browser) -> None:
    shown.choose("[name=pair]", "1")
    lefts = shown.run(
        "[...document.querySelectorAll('.source .word')].map(w => w.getBoundingClientRect().left)"
    )
    assert lefts == sorted(lefts, reverse=True)
    shown.run(f'document.querySelector("{word("source", 0)}").focus()')
    shown.press("ArrowLeft")
    assert held(shown) == ["source", 1]


def test_the_columns_of_a_right_to_left_source_run_that_way(shown: Browser) -> None:
    shown.choose("[name=pair]", "1")
    shown.run("document.querySelector('[value=map]').click()")
    lefts = shown.run(
        "[...document.querySelectorAll("
        "'.map .word[data-side=source], .map tbody tr:last-child td')]"
        ".map(w => w.getBoundingClientRect().left)"
    )
    words, cells = lefts[: len(lefts) // 2], lefts[len(lefts) // 2 :]
    assert words == sorted(words, reverse=True) and cells == sorted(cells, reverse=True)
    assert texts(shown, ".map .word[data-side=target]") == ["一只", "狗", "在", "跑"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_a_text_holds_is_shown_as_text(window: Browser, tmp_path: Path, text: str) -> None:
    alignment = random_alignment(text, text)
    write_page(tmp_path / "page.html", [alignment], FIRST)
    window.open(tmp_path / "page.html")
    assert texts(window, ".target .word") == [to_label(w.text, 60) for w in words(text)]
    assert window.run("document.title") == "Alignment"
    assert window.run("document.querySelectorAll('script').length") == 2
    assert window.complaints == []
    assert window.run("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_is_asked_of_the_network_and_nothing_can_be(shown: Browser, tmp_path: Path) -> None:
    assert shown.requests == [(tmp_path / "page.html").as_uri()]
    refused = shown.run(
        "new Promise(done => { addEventListener('securitypolicyviolation', "
        "e => done(e.effectiveDirective)); fetch('http://127.0.0.1:9/x').catch(() => {}); })"
    )
    assert refused == "connect-src"


@pytest.mark.parametrize("width", [360, 800])
def test_what_does_not_fit_into_two_lines_stands_in_two_columns(
    window: Browser, tmp_path: Path, width: int
) -> None:
    text = " ".join(f"word{n}" for n in range(60))
    write_page(tmp_path / "page.html", [random_alignment(text, text)], FIRST)
    window.resize(width)
    window.open(tmp_path / "page.html")
    assert window.run("document.querySelector('.stage').classList.contains('columns')")
    assert window.run("document.documentElement.scrollWidth <= innerWidth")
    window.hover(word("target", 40))
    assert held(window) == ["target", 40]
    # The text about the word is in sight, wherever the word is in the page.
    bottom = window.run("document.querySelector('.said').getBoundingClientRect().bottom")
    assert 0 < bottom <= 900


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_paper_by_day_and_by_night(shown: Browser, dark: bool) -> None:
    shown.dark(dark)
    try:
        colours = shown.run(
            "['--ink', '--quiet', '--hue', '--paper'].map(name => "
            "getComputedStyle(document.documentElement).getPropertyValue(name))"
        )
    finally:
        shown.dark(False)
    ink, quiet, hue, paper = ([int(c) / 255 for c in colour.split()] for colour in colours)
    assert (luminance(paper) < luminance(ink)) == dark
    # The minimal contrasts of text in WCAG 2.2 at levels AAA and AA.
    assert contrast(ink, paper) > 7
    assert contrast(quiet, paper) > 4.5
    assert contrast(hue, paper) > 4.5


def luminance(colour: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: list[float], other: list[float]) -> float:
    light, dark = sorted((luminance(one) + 0.05, luminance(other) + 0.05), reverse=True)
    return light / dark

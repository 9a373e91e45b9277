"""Augmented text: what changes, how often, and where links go, compared with naive code."""

import random
import re
from collections import Counter
from itertools import count
from math import sqrt
from typing import Any

import numpy as np
import pytest

from seq2seq.alignment.links import Links, parse_links, words
from seq2seq.base.errors import ConfigError
from seq2seq.data.augment.augmented_text import (
    KINDS,
    NOISE,
    TITLE,
    TYPOS,
    UNPUNCTUATED,
    UPPER,
    AugmentOptions,
    SentencePair,
    add_typos,
    augment,
    check_augment,
    draw_kinds,
    draw_numbers,
)

EVERY = AugmentOptions(upper=0.07, title=0.05, unpunctuated=0.2, typos=0.05, noise=0.0005)
WORDS = ["ein", "Hund,", "läuft", "ÖBB", "3", "don't", "(sie", "straße.", "a", "–", "x1y2", "日本"]


def pair_of(source: str, target: str, links: str = "") -> SentencePair:
    return SentencePair(source, target, parse_links(links))


def change(pair: SentencePair, kinds: int, row: int = 0) -> SentencePair:
    return augment(pair, kinds, draw_numbers(1, 0, row))


def numbered_pair(generator: random.Random) -> SentencePair:
    """Words that each contain a number of six digits, linked at random. A side may end in
    punctuation, with or without a space before it.
    """
    texts = []
    for _ in range(2):
        numbers = generator.sample(range(100_000, 1_000_000), generator.randint(1, 8))
        side = [f"{generator.choice(WORDS).strip('.')}{number}ende" for number in numbers]
        texts.append(" ".join(side) + generator.choice(["", ".", " .", " ?!", "…"]))
    sizes = [len(words(text)) for text in texts]
    every = [(i, j) for i in range(sizes[0]) for j in range(sizes[1])]
    possible = {link for link in every if generator.random() < 0.3}
    sure = {link for link in possible if generator.random() < 0.7}
    return SentencePair(texts[0], texts[1], Links(sure, possible))


def labels(text: str) -> list[str]:
    """For each word its number, `mark` for final punctuation, or `noise`."""
    found = [(word.text, re.search(r"\d{6}", word.text)) for word in words(text)]
    mark = re.compile(r"[.?!…]+")
    return [n[0] if n else "mark" if mark.fullmatch(word) else "noise" for word, n in found]


def test_capitals_change_both_sides() -> None:
    pair = pair_of("ein Hund läuft. Straße", "a dog (it isn't ill) runs", "0-0")
    upper, title = change(pair, UPPER), change(pair, TITLE)
    assert upper[:2] == ("EIN HUND LÄUFT. STRASSE", "A DOG (IT ISN'T ILL) RUNS")
    assert title[:2] == ("Ein Hund Läuft. Straße", "A Dog (It Isn't Ill) Runs")
    assert upper.links == title.links == pair.links


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("Ein Hund.", "A dog."), ("Ein Hund", "A dog")),
        (("Ein Hund ?!", "A dog..."), ("Ein Hund", "A dog")),
        (("Ein Hund . . .", "A dog . "), ("Ein Hund", "A dog")),
        (("犬です。", "A dog."), ("犬です", "A dog")),
        (("Ein Hund", "A dog."), ("Ein Hund", "A dog.")),  # one side has none
        ((".", "A dog."), (".", "A dog.")),  # nothing would be left
        (("Ein Hund,", "A dog,"), ("Ein Hund,", "A dog,")),
    ],
)
def test_final_punctuation_is_dropped_where_both_sides_have_it(before: Any, after: Any) -> None:
    assert change(pair_of(*before), UNPUNCTUATED)[:2] == after


def test_links_stay_with_their_words() -> None:
    """Links are compared by the numbers in their words, without computing positions."""
    generator = random.Random(1)
    for row in range(3000):
        pair = numbered_pair(generator)
        kinds = generator.choice([0, UPPER, TITLE]) | generator.choice(range(0, 32, 4))
        after = change(pair, kinds, row)
        old, new = ([labels(text) for text in each[:2]] for each in (pair, after))
        kept = [
            {(old[0][i], old[1][j]) for i, j in each if old[0][i] in new[0] and old[1][j] in new[1]}
            for each in pair.links
        ]
        noise = {("noise", "noise")} if kinds & NOISE and kept[1] else set()
        for wanted, links in zip(kept, after.links, strict=True):
            assert {(new[0][i], new[1][j]) for i, j in links} == wanted | noise
            assert len(links) == len(wanted | noise)


def test_noise_is_one_word_that_both_sides_get() -> None:
    pair, places = pair_of("ein Hund", "a dog", "0-0 1-1"), Counter[bool]()
    for row in range(300):
        after = change(pair, NOISE, row)
        sides = [text.split() for text in after[:2]]
        first = sides[0][0] != "ein"
        places[first] += 1
        noise = sides[0][0 if first else -1]
        assert sides == [[noise, "ein", "Hund"], [noise, "a", "dog"]] or sides == [
            ["ein", "Hund", noise],
            ["a", "dog", noise],
        ]
        assert after.links.sure == ({(0, 0), (1, 1), (2, 2)})
    assert min(places.values()) > 100
    assert change(pair_of("ein", "a"), NOISE).links == Links(set(), set())  # as it had none


def distance_of_one_typo(before: str, after: str) -> bool:
    """True if `after` has two letters swapped, one dropped, doubled, or replaced by a neighbour."""
    swaps = {
        before[:i] + before[i + 1] + before[i] + before[i + 2 :] for i in range(len(before) - 1)
    }
    drops = {before[:i] + before[i + 1 :] for i in range(len(before))}
    doubles = {before[: i + 1] + before[i:] for i in range(len(before))}
    copies = {
        before[:i] + before[j] + before[i + 1 :]
        for i in range(len(before))
        for j in (i - 1, i + 1)
        if 0 <= j < len(before)
    }
    return after in swaps | drops | doubles | copies


def test_typos_change_letters_of_words_and_nothing_else() -> None:
    generator, changed = random.Random(2), 0
    for row in range(1000):
        text = "  ".join(generator.choices(WORDS, k=6))
        after = add_typos(text, draw_numbers(1, 0, row))
        assert re.findall(r"\s+", after) == re.findall(r"\s+", text)
        pairs = list(zip(text.split(), after.split(), strict=True))
        for one, other in pairs:
            assert one == other or distance_of_one_typo(one, other)
            assert re.sub(r"[^\d]", "", one) == re.sub(r"[^\d]", "", other)
        typos = sum(one != other for one, other in pairs)
        assert typos >= any(re.search(r"[^\W\d_]{2}", one) for one, _ in pairs)
        changed += typos
    assert 1000 < changed < 2000  # one, and one word in ten of the others
    assert add_typos("3 – a 11 aa", draw_numbers(1, 0, 0)) == "3 – a 11 aa"
    pair = pair_of("ein Hund läuft", "a dog runs", "0-0 1-1")
    assert change(pair, TYPOS).target == pair.target


def test_kinds_of_augmentation_have_their_rates_and_are_independent() -> None:
    rows = 200_000
    kinds = draw_kinds(EVERY, 1, 3, 0, rows)
    wanted = dict(zip(KINDS, vars(EVERY).values(), strict=True))
    wanted[TYPOS | UNPUNCTUATED], wanted[UPPER | TYPOS] = 0.05 * 0.2, 0.07 * 0.05
    for kind, rate in wanted.items():
        hits = int(((kinds & kind) == kind).sum())
        assert abs(hits - rows * rate) < 4 * sqrt(rows * rate * (1 - rate)), kind
    assert not ((kinds & (UPPER | TITLE)) == UPPER | TITLE).any()
    assert not draw_kinds(AugmentOptions(), 1, 3, 0, 1000).any()
    assert (draw_kinds(AugmentOptions(upper=1, typos=1), 1, 3, 0, 1000) == UPPER | TYPOS).all()


def test_kinds_of_a_row_depend_on_seed_epoch_and_row_only() -> None:
    whole = draw_kinds(EVERY, 1, 3, 0, 5000)
    for start, stop in ((0, 1), (17, 18), (1000, 4999)):
        assert np.array_equal(draw_kinds(EVERY, 1, 3, start, stop), whole[start:stop])
    assert not np.array_equal(draw_kinds(EVERY, 1, 4, 0, 5000), whole)
    assert not np.array_equal(draw_kinds(EVERY, 2, 3, 0, 5000), whole)
    numbers = [next(draw_numbers(*key)) for key in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))]
    assert len(set(numbers)) == 4


def test_any_text_can_be_changed_in_every_way() -> None:
    hostile = ["", " ", "...", "a\u0301b", "\u00a0.", "ß", "ǆ ŉ", "\U0001f600", "a" * 500, "\t!\t"]
    for source in hostile:
        for target in hostile:
            for kinds, row in zip(range(32), count()):
                after = change(pair_of(source, target), kinds, row)
                for text, old in zip(after[:2], (source, target), strict=True):
                    assert bool(text.strip()) >= bool(old.strip())


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"upper": 1.5}, r"data.augment.upper=1.5 should be at least 0 and at most 1"),
        ({"typos": -0.1}, r"data.augment.typos=-0.1 should be at least 0 and at most 1"),
        ({"noise": float("nan")}, r"data.augment.noise=nan should be"),
        ({"typo": 0.1}, r"unknown option data.augment.typo; did you mean 'typos'\?"),
        ({"upper": "7%"}, r"data.augment.upper='7%' should be a number"),
        ({"upper": True}, r"data.augment.upper=True should be a number"),
        (
            {"upper": 0.6, "title": 0.5},
            r"together they should be at most 1: data.augment.upper=0.07",
        ),
    ],
)
def test_a_rate_that_is_not_a_probability_is_refused(rates: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_augment(rates, "data.augment")

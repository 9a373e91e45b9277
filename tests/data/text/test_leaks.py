"""Copies and near-copies, compared with definitions that are slow and plain."""

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.text.leaks import LETTERS, WORDS, Leaks, copy_keys, count_leaks, fold_text

SENTENCE = ["ein", "Hund", "läuft", "schnell", "über", "die", "große", "grüne", "Wiese"]


def letters(text: str) -> str:
    """The folded letters of a text, by the properties of Unicode."""
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return regex.sub(r"[^\p{L}\p{N}]", "", decomposed)


def outcomes(words: list[str]) -> set[tuple[str, ...]]:
    """The words, and the words without each one of them."""
    removed = {(*words[:i], *words[i + 1 :]) for i in range(len(words))}
    return {tuple(words), *(removed if len(words) >= WORDS else ())}


@given(st.text(st.characters(exclude_categories=("Cn", "Cs"))))  # known to this Python
def test_folding_keeps_letters_and_digits_alone(text: str) -> None:
    assert "".join(fold_text(text)) == letters(text)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert fold_text(unicodedata.normalize(form, text)) == fold_text(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Über den Fluß.", "uber  den Fluss"),
        ("Ja, nein!", "ja - nein"),
        ("Ｔｏｋｙｏ ２０２０", "tokyo 2020"),
        ("İstanbul’da", "ISTANBUL'DA"),
        ("你好 吗？", "你好吗"),
        ("ガス", "カ\u3099ス"),
        ("한국어", unicodedata.normalize("NFD", "한국어")),
    ],
)
def test_case_accents_width_punctuation_and_spaces_do_not_count(one: str, other: str) -> None:
    assert copy_keys(one)[0] == copy_keys(other)[0]


def test_other_letters_and_digits_count() -> None:
    texts = ("Seite 1", "Seite 2", "Seiten 1", "页 1")
    assert len({copy_keys(text)[0] for text in texts}) == len(texts)
    assert copy_keys("... ?! \u0301") == copy_keys("") == []


def test_words_are_separated_by_spaces_and_characters_of_chinese_are_words() -> None:
    assert fold_text("Anna-Lena, l’été") == ["annalena", "lete"]
    assert fold_text("我有3只猫") == ["我", "有", "3", "只", "猫"]
    assert len(fold_text("한국어 말")) == 2


WORD = st.sampled_from(["wiese", "hund", "läuft", "über"])
ROW = st.lists(WORD, min_size=WORDS - 2, max_size=WORDS + 1)


@given(ROW, ROW)
def test_near_copies_are_equal_after_a_word_is_taken_out_of_each(
    one: list[str], other: list[str]
) -> None:
    known = not outcomes(one).isdisjoint(outcomes(other))
    leaks = count_leaks([(" ".join(one), "x")], [(" ".join(other), "y")])
    assert leaks == (Leaks(pairs=1) if one == other else Leaks(near=known))


@pytest.mark.parametrize("place", range(len(SENTENCE)))
def test_a_word_that_is_replaced_inserted_or_removed_makes_a_near_copy(place: int) -> None:
    before, after = SENTENCE[:place], SENTENCE[place + 1 :]
    for changed in (
        [*before, "neu", *after],
        [*before, *after],
        [*before, "neu", *SENTENCE[place:]],
    ):
        for one, other in ((SENTENCE, changed), (changed, SENTENCE)):
            assert count_leaks([(" ".join(one), "a")], [(" ".join(other), "b")]) == Leaks(near=1)


def test_short_texts_are_no_near_copies() -> None:
    assert WORDS > 7 and LETTERS > 16
    for one, other in (("wir sehen den Hund auf der Wiese", "Katze"), ("c a t a l o g u e s", "z")):
        words = one.split()
        changed = " ".join([*words[:3], other, *words[4:]])
        assert count_leaks([(one, "a")], [(changed, "b")]) == Leaks()


def test_either_side_can_leak() -> None:
    train = [("Eins.", "one"), ("zwei", "two"), (" ".join(SENTENCE), "a dog")]
    near = " ".join([*SENTENCE[:-1], "Straße"])
    held_out = [
        ("eins", "1"),
        ("2", "Two!"),
        ("zwei", "ONE"),
        (near, "x"),
        (near, "one"),
        ("", "?"),
    ]
    assert count_leaks(held_out, train) == Leaks(pairs=4, near=1)
    assert count_leaks([], train) == count_leaks(held_out, []) == Leaks()


TEXT = st.sampled_from(["A b", "a, b", "c", "ç", "d", "?", " ".join(SENTENCE)])
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=8)


@given(PAIRS, PAIRS)
def test_copies_are_counted_as_by_comparing_all_pairs(
    held_out: list[tuple[str, str]], train: list[tuple[str, str]]
) -> None:
    def leaking(side: int) -> list[bool]:
        known = {letters(pair[side]) for pair in train} - {""}
        return [letters(pair[side]) in known for pair in held_out]

    source, target = leaking(0), leaking(1)
    either = sum(a or b for a, b in zip(source, target, strict=True))
    assert count_leaks(held_out, train) == Leaks(either, 0)

"""Cautions about tokenized text and about text without spaces."""

import gzip
import os
from pathlib import Path

import pytest
from helpers.tiny_runs import DEMO, demo_lines

from seq2seq.metrics.text_checks import (
    cautions,
    looks_spaceless,
    looks_tokenized,
    usual_metrics,
)

RAW = demo_lines("test", "en", 200)


def tokenized(lines: list[str]) -> list[str]:
    return [line.replace(".", " .").replace(",", " ,") for line in lines]


def test_raw_text_does_not_look_tokenized() -> None:
    assert not looks_tokenized(RAW)
    assert cautions(RAW, {"x": RAW}) == []


@pytest.mark.parametrize(
    "line",
    [
        "a dog runs .",
        "a dog , a cat",
        "the dog &apos;s tail",
        "a black @-@ white cat",
        "dog 's tail",
    ],
)
def test_a_text_of_split_punctuation_looks_tokenized(line: str) -> None:
    assert looks_tokenized([line, "A dog"])


def test_the_spaces_of_french_do_not_look_tokenized() -> None:
    assert not looks_tokenized(["Qui est là ?", "Il dort : enfin.", "Oui ; non !", "« Oui »"])


def test_a_few_odd_lines_do_not_make_a_text_tokenized() -> None:
    assert not looks_tokenized([*RAW, *["a dog runs ."] * 10])


def test_cautions_name_the_tokenized_side() -> None:
    split = tokenized(RAW)
    (both,) = cautions(split, {"x": split})
    assert "references look tokenized" in both and "--metrics bleu-tokenized" in both
    (joined,) = cautions(RAW, {"x": RAW, "y": split})
    assert "translations of y look tokenized, and the references do not" in joined


@pytest.mark.parametrize(
    "line",
    [
        "他在2008年的夏天买了iPhone。",
        "彼は犬を見た",
        "ฉันรักเธอ",
        "ខ្ញុំស្រឡាញ់",
        "မြန်မာစာ",
        "ຂ້ອຍຮັກ",
        "ང་དཔེ་ཆ",
        "我",
    ],
)
def test_text_without_spaces_asks_for_its_language(line: str) -> None:
    assert looks_spaceless([line])
    (caution,) = cautions([line], {"x": [line]})
    assert "no spaces between words" in caution and "--language zh" in caution
    assert cautions([line], {"x": [line]}, "zh") == cautions([line], {"x": [line]}, "ja") == []


@pytest.mark.parametrize(
    "lines", [[], ["", "3.5"], RAW, ["나는 학교에 간다"], ["他 is a word of Chinese"]]
)
def test_other_texts_do_not_look_spaceless(lines: list[str]) -> None:
    assert not looks_spaceless(lines)


def test_tokenized_references_are_also_scored_without_tokenization() -> None:
    assert usual_metrics(RAW) == ["bleu", "chrf", "ter"]
    assert usual_metrics(tokenized(RAW)) == ["bleu", "chrf", "ter", "bleu-tokenized"]


FLICKR = Path(os.environ.get("SEQ2SEQ_MULTI30K", DEMO.parent / "multi30k"))


@pytest.mark.skipif(not (FLICKR / "tok").is_dir(), reason="no corpus in data/multi30k")
@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_a_real_test_set_is_told_from_its_tokenized_form(language: str) -> None:
    def lines(name: str) -> list[str]:
        with gzip.open(FLICKR / f"{name}.{language}.gz", "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    raw, split = lines("test_2016_flickr"), lines("tok/test_2016_flickr.lc.norm.tok")
    assert not looks_tokenized(raw) and looks_tokenized(split)

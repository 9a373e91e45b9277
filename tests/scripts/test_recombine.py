"""New sentences from halves of others."""

from pathlib import Path

import pytest
from helpers.tiny_runs import demo_lines
from recombine import main, recombine

BEFORE = "in", "an", "auf", "und"


def halves(sentence: str) -> list[tuple[str, str]]:
    words = sentence.split()
    return [
        (" ".join(words[:i]), " ".join(words[i:]))
        for i in range(1, len(words))
        if words[i] in BEFORE
    ]


def test_each_new_sentence_begins_like_one_and_ends_like_another() -> None:
    sentences = demo_lines("train", "de", 400)
    begins, ends = zip(*(pair for each in sentences for pair in halves(each)), strict=True)
    made = list(recombine(sentences, BEFORE, times=2, seed=1))
    assert len(made) > 100
    for each in made:
        assert any(begin in begins and end in ends for begin, end in halves(each)), each
    assert len(set(made)) == len(made) and not set(made) & set(sentences)


def test_equal_seeds_give_equal_sentences_and_others_give_others() -> None:
    sentences = demo_lines("train", "de", 400)
    one, same, other = (list(recombine(sentences, BEFORE, times=1, seed=s)) for s in (1, 1, 2))
    assert one == same != other


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "--before", "in"]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err

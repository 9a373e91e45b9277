from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.base.errors import DataError
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import LONGEST_PART, prepare, select_text

SHORT = ["ein hund", "", "中文中文"]


def test_text_of_usual_lines_is_given_as_it_is() -> None:
    assert list(select_text(iter(SHORT), 2)) == SHORT


def test_a_line_of_more_characters_than_its_pieces_could_hold_is_left_out() -> None:
    lines = ["x" * 201, "y" * 200, *SHORT]
    assert list(select_text(lines, 10)) == ["y" * 200, *SHORT]


@pytest.mark.parametrize("others", [[], ["", "  "]])
def test_if_all_lines_are_too_long_the_beginning_of_the_first_is_given(others: list[str]) -> None:
    kept = list(select_text([*others, "x" * 5000, "y" * 5000], 10))
    assert kept == [*others, "x" * LONGEST_PART]


@given(st.lists(st.sampled_from(["x" * 700, "yy", " ", " " * 1100, "z" * 2500, "\t"]), max_size=9))
def test_the_parts_of_a_line_are_short_and_make_it_up(words: list[str]) -> None:
    line = "".join(words)
    pieces = list(select_text([line], 10**6))
    assert "".join(pieces) == line
    assert all(len(part) <= LONGEST_PART for part in pieces)
    assert all(pieces) or line == ""


def test_a_long_line_is_cut_before_a_space() -> None:
    pieces = list(select_text(["word " * 1000], 1000))
    assert all(part.startswith(" word") and part.endswith("word") for part in pieces[1:-1])


@pytest.mark.parametrize("name", ["bpe", "unigram", "word", "char"])
def test_no_run_that_a_tokenizer_is_given_is_longer_than_a_part(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def watched(lines: list[str], max_length: int) -> list[str]:
        kept = list(select_text(lines, max_length))
        seen.extend(len(line) for line in kept)
        return kept

    monkeypatch.setattr("seq2seq.data.prepare.select_text", watched)
    (tmp_path / "train.de").write_text("hund\n" + "x" * 4000 + "\n" + "y" * 50_000 + "\n")
    (tmp_path / "train.en").write_text("dog\nz\nz\n")
    prepared = prepare(options(tmp_path, 256), {"name": name, "joint": True})
    assert max(seen) == LONGEST_PART and sum(seen) == len("hund" + "dogzz") + 4000
    assert prepared.ledger["parts"]["train"]["corpora"][0]["read"] == 3


@pytest.mark.parametrize("name", ["bpe", "unigram", "char"])
def test_a_corpus_of_lines_that_all_are_too_long_is_refused_with_the_reason(
    name: str, tmp_path: Path
) -> None:
    for suffix in ("de", "en"):
        (tmp_path / f"train.{suffix}").write_text("xy" * 50_000 + "\n" + "yz" * 50_000 + "\n")
    with pytest.raises(DataError, match=r"no pair of .*train\.de.* larger data\.max_length keeps"):
        prepare(options(tmp_path, 16), {"name": name, "joint": False})


def options(folder: Path, max_length: int) -> DataOptions:
    prefix = str(folder / "train")
    return DataOptions(
        name="files",
        source="de",
        target="en",
        train=prefix,
        valid=prefix,
        max_length=max_length,
        cache=str(folder / "cache"),
    )

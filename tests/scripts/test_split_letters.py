"""Tables of words as files of letters, and the way back."""

import io
import unicodedata
from pathlib import Path

import pytest
import split_letters
from split_letters import main

INFLECTION = "katto\tkatot\tN;NOM;PL\n\nyö\tÖitä\tN;PRT;PL\nad hoc\tad hocin\tN;GEN;SG\n"


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)], ids=["2016 to 2022", "2023"])
def test_inflection(order: tuple[int, ...], tmp_path: Path) -> None:
    rows = [line.split("\t") for line in INFLECTION.splitlines() if line]
    text = "\n".join("\t".join(row[i] for i in order) for row in rows)
    tables = [write(tmp_path / part, text) for part in ("fin.trn", "fin.dev")]
    covered = write(tmp_path / "fin.tst", "yö\tN;PRT;PL\r\n")
    assert main(["inflection", *tables, covered, "-o", str(tmp_path)]) == 0
    for part in ("train", "valid"):
        assert lines(tmp_path, f"{part}.lemma") == [
            "<N> <NOM> <PL> k a t t o",
            "<N> <PRT> <PL> y ö",
            "<N> <GEN> <SG> a d ␣ h o c",
        ]
        assert lines(tmp_path, f"{part}.form") == ["k a t o t", "Ö i t ä", "a d ␣ h o c i n"]
    assert lines(tmp_path, "test.lemma") == ["<N> <PRT> <PL> y ö"]
    assert not (tmp_path / "test.form").exists()


def test_g2p_takes_letters_apart_and_leaves_sounds(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "été\te t e\n각\tk a k̚\n")
    assert main(["g2p", table, "-o", str(tmp_path)]) == 0
    words = [line.split() for line in lines(tmp_path, "train.letters")]
    assert [len(word) for word in words] == [5, 3]
    assert [unicodedata.normalize("NFC", "".join(word)) for word in words] == ["été", "각"]
    assert lines(tmp_path, "train.phones") == ["e t e", "k a k̚"]


@pytest.mark.parametrize("word", ["kirjoittaa", "كَتَبَ", "mettre en œuvre", "a  b", "ḱ", "ﷺ"])
def test_joining_letters_gives_the_word_back(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(split_letters.letters(word) + "\n"))
    assert main(["join"]) == 0
    assert capsys.readouterr().out == unicodedata.normalize("NFC", word) + "\n"


def test_join_reads_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["join", "file"])
    assert "join reads standard input" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tN;SG\na\tN;SG\n", "t.tsv, line 2: 2 column(s) between tabs, expected 3"),
        ("a b\n", "t.tsv, line 1: 1 column(s) between tabs, expected two or more"),
        ("a\t\tN;SG\n", "t.tsv, line 1: a column is empty"),
        ("a␣\tb\tN;SG\n", "t.tsv, line 1: a column contains ␣, which marks a space"),
        ("\n\n", "t.tsv has no examples"),
    ],
)
def test_a_line_that_is_no_example_is_named(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path / "good.tsv", INFLECTION)
    assert main(["inflection", good, write(tmp_path / "t.tsv", text), "-o", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "train.lemma").exists()

"""`--source-language` and `--target-language` of all commands."""

import json
import re
from pathlib import Path

import pytest
from helpers import commands
from helpers.commands import Command, refused
from helpers.many_languages import save_languages
from helpers.tiny_runs import demo_lines

from seq2seq.translation.translator import Translator

seq2seq = commands.seq2seq
TEXTS = demo_lines("test", "de", 6)
FRENCH = ("--source-language", "de", "--target-language", "fra")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("languages") / "best.ckpt"
    save_languages(path)
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "in" / "a.de", tmp_path / "a.fr"
    source.parent.mkdir()
    source.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    target.write_text("Un chien.\n" * len(TEXTS), encoding="utf-8")
    return source, target


def french(model: Path) -> list[str]:
    translator = Translator.load(model, "cpu")
    return translator.translate(TEXTS, source_language="deu_Latn", target_language="fra_Latn")


def test_texts_files_and_folders_are_translated_between_the_given_languages(
    seq2seq: Command, model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    expected = french(model)
    assert seq2seq("translate", model, *FRENCH, *TEXTS).lines == expected
    assert seq2seq("translate", model, *FRENCH, "-i", files[0], "--quiet").lines == expected
    seq2seq("translate-files", model, tmp_path / "in", tmp_path / "out", *FRENCH, "--quiet")
    assert (tmp_path / "out" / "a.de").read_text(encoding="utf-8").splitlines() == expected
    again = "translate-files", model, tmp_path / "in", tmp_path / "out", "--quiet"
    assert re.search(
        "begun with other options .--target-language.", refused(seq2seq(*again, *FRENCH[:3], "eng"))
    )


def test_each_line_of_json_may_name_its_languages(seq2seq: Command, model: Path) -> None:
    asked = [{"text": TEXTS[0]}, {"text": TEXTS[0], "target_language": "en"}]
    stdin = "".join(f"{json.dumps(each)}\n" for each in asked).encode()
    ended = seq2seq("translate", model, *FRENCH, "--json-input", stdin=stdin)
    english = Translator.load(model, "cpu", languages=("de", "en")).translate(TEXTS[:1])
    assert ended.lines == [*french(model)[:1], *english]
    entry = json.dumps({"text": "Ja.", "target_language": 5}).encode()
    ended = seq2seq("translate", model, *FRENCH, "--json-input", stdin=entry)
    assert ended.code == 1 and "unknown target language 5" in ended.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "source language is missing: give --source-language, one of deu_Latn, eng_Latn"),
        (FRENCH[:2], "target language is missing: give --target-language, one of"),
        ((*FRENCH[:3], "german"), "unknown target language 'german'"),
        ((*FRENCH[:3], "de"), "source and target language are both deu_Latn"),
        (("--tag", "fra_Latn"), "--target-language fra_Latn"),
    ],
)
def test_languages_that_are_missing_or_unknown_are_refused(
    seq2seq: Command, model: Path, options: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("translate", model, *options, "Ja."))


def test_a_document_is_split_as_its_source_and_joined_as_its_target(
    seq2seq: Command, model: Path
) -> None:
    document = "translate", model, "--source-language", "zh", "--document", "狗跑。猫睡。"
    translator = Translator.load(model, "cpu", languages=("zh", "fr"))
    ended = seq2seq(*document, "--target-language", "fr")
    assert ended.lines == [" ".join(translator.translate(["狗跑。", "猫睡。"]))]


def test_scores_and_alignments_are_those_of_the_direction(
    seq2seq: Command, model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    translator = Translator.load(model, "cpu", languages=("de", "fr"))
    expected = [each.log_probability for each in translator.score(TEXTS, ["Un chien."] * 6)]
    rows = [json.loads(line) for line in seq2seq("score", model, *files, *FRENCH).lines]
    assert [row["log_probability"] for row in rows] == expected
    output = tmp_path / "scores.jsonl"
    assert seq2seq("score", model, *files, *FRENCH, "-o", output).code == 0
    other = seq2seq("score", model, *files, *FRENCH[:3], "en", "-o", output)
    assert "something else" in refused(other)
    links = tmp_path / "a.align"
    of_files = ("--source", files[0], "--target", files[1])
    assert seq2seq("align", model, *of_files, *FRENCH, "-o", links).code == 0
    assert len(links.read_text().splitlines()) == 6


def test_an_evaluation_is_in_the_given_direction(
    seq2seq: Command, model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    output = tmp_path / "out.fr"
    ended = seq2seq("evaluate", model, *files, *FRENCH, "-o", output, "--resamples", 0)
    assert ended.code == 0 and output.read_text(encoding="utf-8").splitlines() == french(model)

"""Commands give a model that was trained with context the sentences before each."""

from pathlib import Path

import pytest
from helpers.commands import Command
from helpers.many_languages import save_languages
from helpers.tiny_runs import demo_lines

from seq2seq.translation.documents import request_lines
from seq2seq.translation.translator import Translator

LINES = [line for line in demo_lines("test", "de", 100) if len(line) < 45][:5]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("context") / "best.ckpt"
    save_languages(path, "target", context=1, source="deu_Latn", target="fra_Latn")
    return path


@pytest.fixture(scope="module")
def right(model: Path) -> list[str]:
    """The translations of all lines, each after the line before it."""
    translator = Translator.load(model, "cpu")
    results = translator.stream(request_lines(LINES, 1), translator.search())
    return [result.translations[0].text for result in results]


def test_a_document_is_translated_with_context(
    seq2seq: Command, model: Path, right: list[str]
) -> None:
    ended = seq2seq("translate", model, "--document", " ".join(LINES))
    assert ended.lines == [" ".join(right)] and ended.code == 0
    assert seq2seq("translate", model, *LINES).lines != right


def test_a_test_set_is_translated_with_context(
    seq2seq: Command, model: Path, right: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "output.fr"
    for suffix, lines in (("de", [*LINES, "", *LINES]), ("fr", ["a b c"] * 11)):
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / f"test.{suffix}").write_text(text, encoding="utf-8")
    files = tmp_path / "test.de", tmp_path / "test.fr"
    assert seq2seq("evaluate", model, *files, "--resamples", "0", "-o", output).code == 0
    assert output.read_text(encoding="utf-8").split("\n")[:-1] == [*right, "", *right]

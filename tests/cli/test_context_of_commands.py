"""Commands give a model that was trained with context the sentences before each."""

import html
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


def test_each_text_is_a_document(seq2seq: Command, model: Path, right: list[str]) -> None:
    ended = seq2seq("translate", model, "--document", LINES[0], " ".join(LINES[:2]))
    assert ended.lines == [right[0], " ".join(right[:2])] and ended.code == 0


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


def test_a_report_does_not_carry_context_from_corpus_to_corpus(
    seq2seq: Command, right: list[str], tmp_path: Path
) -> None:
    """The second corpus of the test set begins as the first one does."""
    lines = LINES[:2]
    for suffix, text in (("deu_Latn", lines), ("fra_Latn", ["a b c", "d e f"])):
        (tmp_path / f"test.{suffix}").write_text("\n".join(text), encoding="utf-8")
    corpus = {"path": str(tmp_path / "test"), "languages": ["deu_Latn", "fra_Latn"]}
    test = {name: {**corpus, "both_directions": False} for name in ("one", "two")}
    path = tmp_path / "best.ckpt"
    save_languages(path, "target", context=1, source="deu_Latn", target="fra_Latn", test=test)
    assert seq2seq("report", path, "-o", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = [page.count(f">{html.escape(text)}<") for text in right[:2]]
    assert found[0] == found[1] > 0

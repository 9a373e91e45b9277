"""`seq2seq demo` needs nothing but an empty folder."""

import filecmp
from pathlib import Path

import pytest

from seq2seq.cli import demo
from seq2seq.cli.main import command_parser, parse_arguments

ROOT = Path(__file__).resolve().parents[2]


def test_the_corpus_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = parse_arguments(["demo", "--corpus"])
    assert demo.run(arguments) == 0
    names = sorted(path.name for path in demo.CORPUS.iterdir())
    assert names == sorted(path.name for path in (ROOT / demo.CORPUS).iterdir())
    assert filecmp.cmpfiles(demo.CORPUS, ROOT / demo.CORPUS, names, shallow=False)[0] == names
    mine = demo.CORPUS / "test.de"
    mine.write_text("changed\n")
    assert demo.run(arguments) == 0 and mine.read_text() == "changed\n"


def test_each_command_of_the_tour_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for _, name, *words in demo.tour():
        if name != "train":
            command_parser(name).parse_intermixed_args(words)


def test_the_tour_ends_if_a_command_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(demo.subprocess, "call", lambda words: started.append(words) or 3)
    assert demo.run(parse_arguments(["demo"])) == 3
    assert len(started) == 1

"""`seq2seq demo` needs nothing but an empty folder."""

import filecmp
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.train_options import checked_plan

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


@pytest.mark.parametrize("quick", [False, True])
def test_each_command_of_the_tour_is_valid(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for _, name, *words in demo.tour(quick):
        if name == "train":
            checked_plan(*(word for word in words if not word.startswith("hydra.")))
        else:
            command_parser(name).parse_intermixed_args(words)


def test_the_next_commands_work_without_an_activated_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each shows its help when a shell runs it, wherever the program is."""
    script = tmp_path / "bin dir" / "seq2seq"
    script.parent.mkdir()
    start = f"#!{sys.executable}\nfrom seq2seq.__main__ import main\nmain()\n"
    script.write_text(start)
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "tour", lambda quick: iter(()))
    started = {"a path": str(script), "a module": str(ROOT / "seq2seq/__main__.py")}
    for name, program in started.items():
        monkeypatch.setattr("sys.argv", [program, "demo"])
        demo.run(parse_arguments(["demo"]))
        lines = capsys.readouterr().out.splitlines()
        (line,) = (line for line in lines if "serve --demo" in line)
        typed = line.partition("    ")[0]
        shown = subprocess.run([*shlex.split(typed), "--help"], capture_output=True, text=True)
        assert shown.stdout.startswith("usage: seq2seq serve"), (name, shown.stderr)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    monkeypatch.setattr("sys.argv", [str(script), "demo"])
    assert demo.command_as_typed() == "seq2seq"


def test_the_tour_ends_if_a_command_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(demo.subprocess, "call", lambda words: started.append(words) or 3)
    assert demo.run(parse_arguments(["demo"])) == 3
    assert len(started) == 1

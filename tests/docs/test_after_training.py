"""The examples of the pages on what follows training, run as they are written."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from helpers import commands
from helpers.commands import Command
from helpers.pages_of_docs import CODE, ROOT
from helpers.tiny_runs import DEMO

run, seq2seq = commands.run, commands.seq2seq
RUN = "runs/demo/quickstart"
PAGES = ("after-training.md", "evaluation.md", "alignment.md", "faq.md")
BLOCKS = [
    block
    for page in PAGES
    for block in CODE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
]
COMMANDS = [line for kind, code in BLOCKS if kind == "bash" for line in code.splitlines()]


@pytest.fixture
def checkout(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run and the first lines of a test set where the examples have them."""
    shutil.copytree(run, tmp_path / RUN)  # examples write into it
    data = tmp_path / "data" / "demo"
    data.mkdir(parents=True)
    parts = ("train", "valid", "test")
    for name in (f"{part}.{end}" for part in parts for end in ("de", "en", "align")):
        lines = (DEMO / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (data / name).write_text("".join(lines[:5]), encoding="utf-8")
    for name in ("greedy.en", "out.en"):  # translations, as examples make them
        shutil.copy(data / "test.en", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_examples_of_each_command() -> None:
    assert {shlex.split(command)[1] for command in COMMANDS} == {
        *("translate", "evaluate", "score", "align", "report")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_runs_as_it_is_written(command: str, checkout: Path, seq2seq: Command) -> None:
    program, *words = shlex.split(re.sub(r"[<>] *\S+", "", command))
    reads = re.search(r"< *(\S+)", command)
    ended = seq2seq(*words, stdin=(checkout / reads[1]).read_bytes() if reads else b"")
    assert (program, ended.code, ended.complaints.count("warning")) == ("seq2seq", 0, 0)
    assert ended.out
    for name in re.findall(r"-o (\S+)", command):
        assert (checkout / name).stat().st_size > 0


def test_the_python_examples_run_as_they_are_written(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    score, page = (code for kind, code in BLOCKS if kind == "python")
    exec(compile(score, "after-training.md", "exec"), {})
    assert float(capsys.readouterr().out) < 0
    exec(compile(page, "alignment.md", "exec"), {})
    assert (checkout / "page.html").stat().st_size > 0


def test_the_json_example_is_a_pair_that_adds_up() -> None:
    (code,) = (code for kind, code in BLOCKS if kind == "json")
    first, second = map(json.loads, code.splitlines())
    assert sum(value for _, value in first["tokens"]) == first["log_probability"]
    assert len(first["tokens"]) == first["pieces"]
    assert second.keys() == {"log_probability", "pieces", "reason"}

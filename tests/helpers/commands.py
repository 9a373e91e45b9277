"""Commands, run in this process or in another."""

import io
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers.tiny_runs import demo_lines, demo_run
from seq2seq.cli.main import main

SENTENCES = demo_lines("test", "de", 12)


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the output, split at LF only, as in tools that count lines."""
        *lines, rest = self.out.decode().split("\n")
        assert rest == ""
        return lines

    @property
    def complaints(self) -> str:
        """Stderr without the warnings of truncation that the model of the tests often causes."""
        return re.sub(r"^warning: cut off at the length limit: .*\n", "", self.err, flags=re.M)


Command = Callable[..., Ended]


@pytest.fixture
def run(base: Path) -> Path:
    """The folder of the run that the tests share."""
    return demo_run(base)


@pytest.fixture
def seq2seq(monkeypatch: pytest.MonkeyPatch) -> Command:
    """A function that runs a command line in this process."""

    def command(*arguments: object, stdin: bytes = b"") -> Ended:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        monkeypatch.setattr(sys, "argv", ["seq2seq", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            warnings.simplefilter("always")
            main()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.buffer.read())
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, texts[0], texts[1].decode())

    return command


def refused(ended: Ended) -> str:
    """The error message that a command ended with."""
    assert ended.code == 2 and ended.out == b""
    assert "Traceback" not in ended.err
    return ended.err.split("error: ", 1)[1]


@pytest.fixture
def test_set(tmp_path: Path) -> tuple[Path, Path]:
    """Files test.de and test.en with `SENTENCES` and their references."""
    return write_sentences(tmp_path, "test")


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    """Files pairs.de and pairs.en with `SENTENCES` and their references."""
    return write_sentences(tmp_path, "pairs")


def write_sentences(folder: Path, name: str) -> tuple[Path, Path]:
    paths = folder / f"{name}.de", folder / f"{name}.en"
    for path in paths:
        lines = demo_lines("test", path.suffix[1:], len(SENTENCES))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def started(*arguments: object) -> subprocess.Popen[bytes]:
    """Start a command in another process, with pipes to its streams."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "seq2seq", *map(str, arguments)]
    return subprocess.Popen(command, **pipes)  # type: ignore[call-overload, no-any-return]

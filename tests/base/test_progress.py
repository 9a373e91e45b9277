"""Progress of long work: lines in a log, a bar on a terminal, and nothing for short work."""

import os
import pty
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.tiny_runs import plan_of, prepared_for, tiny_overrides

from seq2seq.base import progress
from seq2seq.base.progress import show_progress


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show progress at once and without pauses."""
    monkeypatch.setattr(progress, "SILENCE", 0.001)
    monkeypatch.setattr(progress, "REFRESH", 0.001)


class Terminal:
    """A terminal whose output can be read."""

    def __init__(self) -> None:
        self.ours, theirs = pty.openpty()
        self.stream = open(theirs, "w", encoding="utf-8")  # noqa: SIM115

    def read_until(self, words: str) -> str:
        text = ""
        while words not in text:
            text += os.read(self.ours, 2**16).decode()
        return text

    def end(self) -> str:
        """Return the output that was not read yet."""
        self.stream.write("end")
        self.stream.flush()
        return self.read_until("end")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    made = Terminal()
    yield made
    made.stream.close()
    os.close(made.ours)


Log = pytest.CaptureFixture[str]


def read_until(words: str, log: Log) -> str:
    text = ""
    while words not in text:
        text += log.readouterr().out
        time.sleep(0.001)
    return text


@pytest.mark.usefixtures("hasty")
def test_a_log_gets_whole_lines_even_while_a_single_step_takes_long(capsys: Log) -> None:
    before, text = set(threading.enumerate()), ""
    with show_progress("learning", "lines", 2) as tally:
        for done, _ in enumerate(tally.count("ab")):
            text += read_until(f"learning: {done} of 2 lines, ", capsys)
        text += read_until("learning: 2 of 2 lines, ", capsys)  # all is read, the work goes on
    text += capsys.readouterr().out
    pattern = r"learning: \d of 2 lines, [\d,]+/s"
    assert all(re.fullmatch(pattern, line) for line in text.splitlines())
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("hasty")
def test_progress_without_a_total_shows_counts(capsys: Log) -> None:
    with show_progress("checking", "lines") as tally:
        list(tally.count(["ab", "c"], len))
        read_until("checking: 3 lines, ", capsys)


def test_a_log_is_silent_for_a_minute_at_most(capsys: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class Passing(threading.Event):
        """Time that passes at once, four times."""

        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            return len(pauses) > 3

    progress.print_lines(progress.Tally("learning", "lines", None), Passing(), sys.stdout)
    assert pauses == [10, 60, 60, 60] and len(capsys.readouterr().out.splitlines()) == 3


def test_short_work_shows_nothing(
    capsys: Log, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdout, terminal.stream):
        monkeypatch.setattr(sys, "stdout", stream)
        with show_progress("learning", "lines", 1) as tally:
            list(tally.count("a"))
    assert capsys.readouterr().out == "" and terminal.end() == "end"


@pytest.mark.usefixtures("hasty")
def test_a_terminal_shows_a_bar_and_erases_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    with show_progress("learning", "lines", 4) as tally:
        list(tally.count("abc"))
        assert "━" in terminal.read_until("learning: 3 of 4 lines")
    assert terminal.end().endswith("\x1b[2Kend")  # its line was erased


@pytest.mark.usefixtures("hasty")
def test_an_error_in_the_work_ends_the_thread_that_shows_progress() -> None:
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), show_progress("learning", "lines"):
        raise KeyboardInterrupt
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("hasty")
def test_a_log_that_cannot_be_written_does_not_fail_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = open("/dev/full", "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", stream)
    with show_progress("learning", "lines"):
        time.sleep(0.05)
    with pytest.raises(OSError, match="No space"):
        stream.close()


def test_preparation_shows_its_progress_unless_it_is_cached(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    class Noted(progress.Tally):
        def __init__(self, work: str, unit: str, total: int | None):
            super().__init__(work, unit, total)
            shown.append(self)

    monkeypatch.setattr(progress, "Tally", Noted)
    links = [tmp_path / f"{part}.align" for part in ("train", "valid")]
    for path, count in zip(links, (300, 40), strict=True):
        path.write_text("0-0\n" * count)
    typed = f"data.cache={tmp_path / 'cache'}", f"guided.links={links[0]}"
    plan = plan_of(tmp_path, *tiny_overrides(base), *typed)
    prepared_for(plan)
    assert [(str(t).partition(",")[0], t.done == t.total) for t in shown] == [
        ("checking the text: 2 of 2 corpora", True),
        ("checking the links: 300 lines", False),
        ("learning the tokenizer: 600 of 600 lines", True),
        ("encoding the text: 300 of 300 pairs", True),
        ("encoding the text: 40 of 40 pairs", True),
        ("dividing the links among pieces: 300 of 300 pairs", True),
    ]
    shown.clear()
    prepared_for(plan)
    assert {t.work for t in shown} <= {"checking the text", "checking the links"}

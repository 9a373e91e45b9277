"""Commands and the terminal they run on: escapes, encodings, pipes, Ctrl-C."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import Command, Ended, refused
from helpers.tiny_runs import tiny_overrides, train_again

from seq2seq.base.errors import escape, printable
from seq2seq.translation.translator import Translator

NASTY = "a\x1b[31m\x9b2J\u202eb\rc\u2028d\udcff"


def test_control_characters_are_escaped_and_letters_of_all_scripts_are_not() -> None:
    assert escape(NASTY) == r"a\x1b[31m\x9b2J\u202eb\rc\u2028d\udcff"
    assert printable(f"{NASTY}\n\tb") == rf"{escape(NASTY)}" + "\n\tb"
    for text in ("Ärger, 漢字", "می\u200cخواهم", "क्\u200dष", "naïve\u00a0!", "e\u0301 🙂"):
        assert escape(text) == printable(text) == text


def test_messages_and_warnings_contain_no_control_characters(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path]
) -> None:
    folder = test_set[0].parent
    assert escape(NASTY) in refused(seq2seq("translate", folder / NASTY, "Ja."))
    assert escape(NASTY) in refused(seq2seq("translate", run, "-i", folder / NASTY))
    assert escape(NASTY) in refused(seq2seq("evaluate", run, folder / NASTY, test_set[1]))
    assert escape(NASTY) in refused(seq2seq("translate", run, "Ja.", "--tag", NASTY))


def test_names_that_are_not_utf8_are_read_written_and_printed(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path]
) -> None:
    source, reference = (path.rename(path.with_name(f"{NASTY}{path.suffix}")) for path in test_set)
    output = source.with_name(f"{NASTY}.out")
    plain = seq2seq("evaluate", run, source, reference, "--resamples", 0, "-o", output)
    assert plain.code == 0 and output.read_bytes().count(b"\n") == 12
    table = seq2seq("evaluate", run, output, source, reference, "--resamples", 0)
    assert table.code == 0 and escape(NASTY) in table.lines[2]
    ended = seq2seq("evaluate", output, source, reference, "--resamples", 0, "--json")
    assert json.loads(ended.out)["path"] == str(output)
    page = output.with_suffix(".html")
    ended = seq2seq("report", run, "--source", source, "--reference", reference, "-o", page)
    assert ended.code == 0 and ended.lines[0].startswith(escape(str(page)))
    assert escape(NASTY) in page.read_text(encoding="utf-8")


def test_training_samples_contain_no_control_characters(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, text in (("de", "Ein \x1b[31mHund\u202e"), ("en", "A \x9bdog\x07")):
        (tmp_path / f"valid.{side}").write_text(f"{text}\n", encoding="utf-8")
    names = "tokenizer=checkpoint", f"init={run}", f"data.valid={tmp_path / 'valid'}"
    train_again(tmp_path / "run", *tiny_overrides(run.parent), *names, "trainer.max_steps=1")
    written = (tmp_path / "run" / "samples.txt").read_text(encoding="utf-8")
    for text in (written, capsys.readouterr().out):
        assert r"Ein \x1b[31mHund\u202e" in text and r"A \x9bdog\x07" in text
        assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(text)


def test_an_ascii_locale_changes_nothing(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "Häuser.de"
    source.write_text("Zwei Häuser.\n", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    text, prefix = "Zwei grüne Häuser.", "Zwö"
    command = [sys.executable, "-m", "seq2seq", "translate", str(run), text, "--prefix", prefix]
    process = subprocess.run(
        command, env={**os.environ, **ascii_only}, capture_output=True, timeout=60
    )
    ended = Ended(process.returncode, process.stdout, process.stderr.decode())
    expected = Translator.load(run).translate([text], prefixes=prefix)
    assert (ended.lines, ended.complaints) == (expected, "")


INTERRUPTED = """
import os, runpy, signal, sys

wanted, package = sys.argv[1:3]
sys.argv[:3] = [package]

class Finder:
    def find_spec(self, name, *_):
        if name == wanted:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("what some libraries make of it") from None

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
runpy.run_module(package, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("package", "imported"),
    [("seq2seq", "seq2seq.cli.translate"), ("seq2seq", "torch"), ("seq2seq.training", "hydra")],
)
def test_an_interrupt_while_importing_ends_without_a_traceback(
    package: str, imported: str, run: Path
) -> None:
    typed = ["translate", str(run), "Ja."] if package == "seq2seq" else []
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, imported, package, *typed],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_refused_where_it_would_be_read_twice(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path]
) -> None:
    source, reference = test_set
    pipe = source.with_name("pipe")
    os.mkfifo(pipe)
    for typed in (
        ("evaluate", run, pipe, reference),
        ("evaluate", run, source, pipe),
        ("evaluate", pipe, source, reference),
        ("score", run, pipe, reference),
        ("align", run, "--source", source, "--target", pipe, "-o", pipe.with_suffix(".align")),
        ("align", run, "--source", pipe, "--target", reference, "-o", pipe.with_suffix(".html")),
        ("report", run, "--source", source, "--reference", pipe),
    ):
        assert f"{pipe} is a pipe" in refused(seq2seq(*typed))
    assert f"{pipe} is a pipe" in refused(seq2seq("translate", pipe, "Ja."))

"""What every command reads is found by its parser, and is never overwritten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import SENTENCES, Command, refused

from seq2seq.cli.files import InputPath
from seq2seq.cli.main import COMMANDS, command_parser

PARSERS = {name: command_parser(name) for name in COMMANDS}
FILES = ("RUN", "--source", "FILE", "--target", "FILE")
# What a command needs beside an option.
BESIDE = {
    "translate": ("RUN", "Ja."),
    "translate --input": ("RUN",),
    "evaluate": ("RUN", "FILE", "FILE"),
    "align --source": ("RUN", "--target", "FILE"),
    "align --target": ("RUN", "--source", "FILE"),
    "align --gold": FILES,
    "align --reverse": FILES,
    "align --links": (),
    "quantize": ("RUN",),
    "report --source": ("RUN", "--reference", "FILE"),
    "report --reference": ("RUN", "--source", "FILE"),
}
READ = [
    (name, action)
    for name, parser in PARSERS.items()
    for action in parser._actions
    if action.type is InputPath and action.option_strings
]


def test_every_option_that_names_a_file_says_whether_it_is_read() -> None:
    for name, parser in PARSERS.items():
        for action in parser._actions:
            named = (
                action.metavar in ("FILE", "PATH", "FOLDER", "SRC", "REF") or action.type is Path
            )
            text = name == "align" and action.metavar == "SRC"
            if named and not text and action.dest not in ("output", "output_dir", "page"):
                assert action.type is InputPath, f"{name} {action.dest} is read: type=InputPath"
    assert len(READ) > 15
    # By hand, as a check of the search above.
    read = {(name, action.option_strings[-1]) for name, action in READ}
    assert {("translate", "--glossary"), ("report", "--source"), ("align", "--links")} < read
    assert {("export", "--check"), ("import", "--vocab"), ("serve", "--keys")} < read


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (name, action.option_strings[-1])
        for name, action in READ
        # These write to nothing that exists; folders of files have tests of their own.
        if name not in ("clean", "compare", "export", "import", "serve", "score", "shortlist")
        and name != "translate-files"
    ],
)
def test_no_output_overwrites_what_an_option_names(
    seq2seq: Command, run: Path, tmp_path: Path, command: str, option: str
) -> None:
    text, output = tmp_path / "text.align", tmp_path / "other.align"
    text.write_text("a text\n")
    (tmp_path / "file").write_text("another\n")
    os.link(text, output)
    places: dict[str, object] = {"RUN": run, "FILE": tmp_path / "file"}
    beside = BESIDE.get(f"{command} {option}") or BESIDE.get(command, ())
    needed = [places.get(word, word) for word in beside]
    words = refused(seq2seq(command, *needed, option, text, "-o", output))
    assert f"-o {output} would overwrite {text}, which is read" in words
    assert text.read_text() == "a text\n"


@pytest.mark.parametrize("command", ["export", "import", "serve", "score"])
def test_appending_output_to_a_file_that_is_read_is_noticed(
    run: Path, tmp_path: Path, command: str
) -> None:
    text = tmp_path / "text"
    text.write_text("a text\n")
    typed = {
        "export": (run, "--format", "hf", "-o", tmp_path / "out", "--check", text),
        "import": (tmp_path / "model.npz", "-o", tmp_path / "out", "--vocab", text),
        "serve": (run, "--keys", text, "--port", 0),
        "score": (run, text, text),
    }
    words = [sys.executable, "-m", "seq2seq", command, *map(str, typed[command])]
    with text.open("ab") as stdout:
        ended = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 2 and text.read_text() == "a text\n"
    assert f"standard output would overwrite {text}" in ended.stderr


def test_files_of_a_run_are_protected_under_any_name(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    os.link(run / "data.json", tmp_path / "link")
    before = (run / "data.json").read_bytes()
    for typed in (("translate", run, "Ja."), ("report", run), ("translate", run, "--with", run)):
        assert "which is read" in refused(seq2seq(*typed, "-o", tmp_path / "link"))
    assert (run / "data.json").read_bytes() == before


def test_no_file_of_a_folder_overwrites_what_is_read(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    texts, out = tmp_path / "in", tmp_path / "out"
    texts.mkdir()
    (texts / "a.tsv").write_text("Ja.\n")
    (out / ".shards").mkdir(parents=True)
    typed = "translate-files", run, texts, out, "--glossary"
    (out / "a.tsv").write_text("ja\tyes\n")
    assert f"{out / 'a.tsv'} is an input inside {out}" in refused(seq2seq(*typed, out / "a.tsv"))
    assert (out / "a.tsv").read_text() == "ja\tyes\n"
    glossary = (out / "a.tsv").rename(tmp_path / "glossary.tsv")
    (out / "a.tsv").symlink_to(glossary)
    assert f"would overwrite {glossary}" in refused(seq2seq(*typed, glossary))
    assert glossary.read_text() == "ja\tyes\n"


def test_invalid_utf_8_on_the_command_line_is_read_as_in_a_file(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    raw = SENTENCES[0].encode()[:-1] + b"\xff."
    (tmp_path / "text").write_bytes(raw + b"\n")
    typed = os.fsdecode(raw)
    for options in ((), ("--json",), ("--document",)):
        of_file = seq2seq("translate", run, "-i", tmp_path / "text", *options)
        ended = seq2seq("translate", run, typed, *options)
        assert (ended.code, ended.out) == (of_file.code, of_file.out) and ended.code == 0
        warned = f"text 1, byte {len(raw) - 1}: 0xff is not UTF-8"
        assert f"warning: {warned}" in ended.err and warned.replace("text", "line") in of_file.err
    output = tmp_path / "a.align"
    ended = seq2seq("align", run, typed, f"A{typed}", "-o", output)
    assert ended.code == 0 and output.exists()
    assert "warning: SRC, byte" in ended.err and "warning: TGT, byte" in ended.err
    ended = seq2seq("translate", run, "Ja.", "--prefix", os.fsdecode(b"A\xff"))
    assert "warning: --prefix, byte 2: 0xff is not UTF-8" in ended.err


def test_a_marked_file_of_json_is_read(seq2seq: Command, run: Path) -> None:
    line = b'{"text": "Ja."}\n'
    marked = b"\xef\xbb\xbf"
    expected = seq2seq("translate", run, "--json-input", stdin=line * 2)
    for stdin in (marked + line * 2, line + marked + line):
        ended = seq2seq("translate", run, "--json-input", stdin=stdin)
        assert (ended.code, ended.out, "not JSON" in ended.err) == (0, expected.out, False)
    assert seq2seq("translate", run, "--json-input", stdin=marked + b"\n").out == b"\n"

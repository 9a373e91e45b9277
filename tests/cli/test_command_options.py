"""The options of commands: parsed once into a dataclass, and nowhere an `argparse.Namespace`."""

import ast
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from helpers.commands import Command

import seq2seq.cli
from seq2seq.cli.main import COMMANDS, command_parser, options_class, use_new_spelling

FOLDER = Path(seq2seq.cli.__file__).parent
PARSER = ("main.py", "options.py")
BELOW = [path for path in FOLDER.rglob("*.py") if path not in {FOLDER / name for name in PARSER}]


@pytest.mark.parametrize("path", BELOW, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_only_the_parser_uses_argparse(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert "argparse" not in [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module != "argparse"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            assert ast.unparse(node.value) != "options", "options are what was typed"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_a_frozen_dataclass(name: str) -> None:
    kind = options_class(name)
    assert is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_no_parser_imports_torch() -> None:
    script = "import sys; from seq2seq.cli.main import whole_parser; whole_parser(); "
    script += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


def test_the_old_spelling_of_translate_files_works_and_names_the_new(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("Ja.\n")
    folders = ("--output-dir", tmp_path / "out", f"--files={tmp_path / 'in'}")
    ended = seq2seq("translate", *folders, run, "--shard", "1/1", "--max-length", 5)
    assert ended.code == 0 and (tmp_path / "out" / "a").read_text()
    new = f"seq2seq translate-files {run} --shard 1/1 --max-length 5 {tmp_path / 'in'} "
    assert f"type {new}{tmp_path / 'out'}\n" in ended.err


def test_a_text_that_begins_like_the_old_spelling_is_a_text() -> None:
    words = ["translate", "RUN", "--", "--files are here"]
    assert use_new_spelling(words) == words


def test_help_ends_before_the_meaning_of_null_which_cannot_be_typed() -> None:
    typed = command_parser("translate").format_help()
    assert "draw among this many of the best pieces only" in " ".join(typed.split())
    assert "null" not in typed

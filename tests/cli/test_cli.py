"""Tests of all commands, and what the tests of each command share."""

import contextlib
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.builders import CONF
from helpers.commands import Command, refused, started
from helpers.tiny_runs import TINY_MODEL, save_model

from seq2seq.cli import translate
from seq2seq.cli.main import COMMANDS, command_parser


def test_a_damaged_model_gives_empty_lines_and_exit_code_1(
    seq2seq: Command, tmp_path: Path
) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL)
    content = torch.load(tmp_path / "best.ckpt", weights_only=True)
    name = next(name for name in content["state_dict"] if name.endswith("norm.weight"))
    content["state_dict"][name].fill_(torch.nan)
    torch.save(content, tmp_path / "best.ckpt")
    ended = seq2seq("translate", tmp_path, stdin=b"Ja.\n\nNein.\n")
    assert (ended.code, ended.out) == (1, b"\n\n\n")
    assert re.findall(r"line (\d) has no translation", ended.err) == ["1", "3"]
    source = tmp_path / "test.de"
    source.write_text("Ja.\n", encoding="utf-8")
    scored = seq2seq("evaluate", tmp_path, source, source)
    assert (scored.code, scored.lines[0]) == (1, "BLEU 0.0")
    assert "output of the model is not finite" in refused(seq2seq("align", tmp_path, "Ja.", "Yes."))
    links = tmp_path / "test.align"
    files = "--source", source, "--target", source, "-o", links
    aligned = seq2seq("align", tmp_path, *files)
    assert (aligned.code, links.read_bytes()) == (1, b"\n")
    assert "line 1 cannot be aligned: the output of the model is not finite" in aligned.err
    assert "no finite probability" in seq2seq("score", tmp_path, source, source).lines[0]


def test_a_path_without_a_model_is_refused_in_one_message(seq2seq: Command, tmp_path: Path) -> None:
    assert "holds neither" in refused(seq2seq("translate", tmp_path, "Ja."))
    (tmp_path / "best.ckpt").write_bytes(b"")
    assert "is not a checkpoint" in refused(seq2seq("translate", tmp_path, "Ja."))


def test_a_closed_pipe_causes_no_traceback(run: Path) -> None:
    """`seq2seq translate RUN | head -1`."""
    with started("translate", run, "--beam-size", "1") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"Ja.\n" * 20_000)
        process.stdin.close()
        assert process.stdout.readline().endswith(b"\n")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_an_interrupt_ends_without_a_traceback(run: Path) -> None:
    """Ctrl-C in the middle of a file; what was translated until then is written."""
    with started("translate", run, "--beam-size", "1") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"Ja.\n" * 4_000)  # two windows; a third is waited for
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(4_000)]
        # One that arrives just before a read begins is seen only after it; people press again.
        for _ in range(60):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
                break
        else:
            process.kill()
        assert (process.returncode, process.stderr.read()) == (130, b"")
        assert all(line.endswith(b"\n") for line in lines)


def test_a_closed_standard_output_is_one_message() -> None:
    """`seq2seq translate RUN Ja. >&-`"""
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "seq2seq"]
    ended = subprocess.run(
        [*closed, "translate", "run", "Ja."], stderr=subprocess.PIPE, text=True, timeout=60
    )
    words = "error: there is nowhere to write to: standard output is closed\n"
    assert (ended.returncode, ended.stderr) == (2, words)


@pytest.fixture(scope="module")
def completion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = [sys.executable, "-m", "seq2seq", "--completion", "bash"]
    script = tmp_path_factory.mktemp("completion") / "script"
    with script.open("wb") as file:
        subprocess.run(words, stdout=file, check=True)
    return script


def complete(script: Path, line: str) -> list[str]:
    """The answers of bash to TAB after a line, which it splits at `=` as well."""
    words = [word for word in re.split(r"\s|(=)", line) if word]
    given = [""] if line[-1] == " " else []
    bash = f"source {script}; COMP_LINE={line!r}; COMP_POINT={len(line)}; "
    bash += f"COMP_WORDS=({shlex.join([*words, *given])}); COMP_CWORD={len(words + given) - 1}; "
    bash += (
        "$(complete -p seq2seq | sed 's/.*-F \\([^ ]*\\).*/\\1/'); printf '%s\\n' ${COMPREPLY[@]}"
    )
    found = subprocess.run(["bash", "-c", bash], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_completion_for_bash_knows_commands_and_options(completion: Path) -> None:
    assert complete(completion, "seq2seq translate --beam") == ["--beam-size", "--beam-groups"]


def test_completion_for_bash_knows_presets(completion: Path) -> None:
    names = {path.stem for path in (CONF / "attn").iterdir()}
    assert {*complete(completion, "seq2seq train attn=")} == names
    assert {*complete(completion, "seq2seq train position=rope attn@cross_attn=")} == names
    assert complete(completion, "seq2seq train attn=gq") == ["gqa"]
    assert complete(completion, "seq2seq train attn=mha posi")[0].startswith("position=")
    assert complete(completion, "seq2seq train -m attn=gqa,additive,ml") == ["gqa,additive,mla"]


def test_completion_for_bash_knows_presets_of_a_comparison(completion: Path) -> None:
    assert complete(completion, "seq2seq compare my.de my.en attn=ml") == ["mla"]
    assert complete(completion, "seq2seq compare my.de my.en attn=mha,ml") == ["mha,mla"]
    assert complete(completion, "seq2seq compare m") == []  # so that bash completes names of files


def test_the_name_alone_prints_the_commands_and_an_example(seq2seq: Command) -> None:
    ended = seq2seq()
    assert (ended.code, ended.out) == (2, b"")
    listed = re.findall(r"^    ([a-z-]+) ", ended.err, flags=re.M)
    assert listed == ["train", *COMMANDS]
    (example,) = re.findall(r"^  seq2seq (.*)", ended.err, flags=re.M)
    name, *words = shlex.split(example)
    command_parser(name).parse_intermixed_args(words)


def required_by(name: str) -> list[str]:
    """The arguments that a command cannot do without, by its usage."""
    usage = re.sub(r"\[[^]]*\]|\(.*?\)", "", command_parser(name).format_usage())
    return re.findall(r"\b[A-Z]+\b|--format", re.sub(r"-o \w+", "", usage))


@pytest.mark.parametrize("name", [name for name in COMMANDS if required_by(name)])
def test_a_missing_argument_is_named_in_one_line(seq2seq: Command, name: str) -> None:
    message = refused(seq2seq(name))
    assert message.count("\n") == 1 and f"seq2seq {name}" in message


def test_optional_texts_are_not_called_missing(seq2seq: Command) -> None:
    assert refused(seq2seq("translate")).startswith("missing: PATH (")


def test_help_lists_first_what_most_people_need() -> None:
    """Every option is listed once, those of `OFTEN` before the others."""
    text = command_parser("translate").format_help()
    listed = re.findall(r"^  (?:-\w [A-Z]+, )?--([a-z-]+)", text, flags=re.M)
    names = [name.replace("-", "_") for name in listed]
    assert sorted(names) == sorted({*names}) and len(names) > 40
    assert {*names[: len(translate.OFTEN)]} == {*translate.OFTEN}

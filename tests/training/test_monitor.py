"""Choosing and stopping by exact match, by symbol errors, and by any command."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.tiny_runs import metrics, tiny_overrides, train_again, train_command, train_tiny

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.training.command_score import fill_in, run_score_command
from seq2seq.training.config.options import CheckpointOptions
from seq2seq.translation.translator import Translator

RUN = ("trainer.max_steps=4", "schedule.steps=4", "trainer.val_check_interval=2")
COLUMNS = {"hypotheses": ["a b", "c"], "references": ["a b", "d"], "sources": ["x", "y"]}


def program(folder: Path, body: str, name: str = "score.py") -> str:
    """A command that runs these lines of Python on its arguments, `paths`."""
    file = folder / name
    file.write_text(f"import sys\npaths = sys.argv[1:]\n{body}\n", encoding="utf-8")
    return f"{sys.executable} {file}"


EXACT = """
hypotheses, references = (open(path, encoding="utf-8").read().splitlines() for path in paths)
print("score", 100 * sum(h == r for h, r in zip(hypotheses, references)) / len(references))
"""


def typed(command: str) -> str:
    return f"checkpoint.monitor='command:{command}'"


def test_a_command_reads_translations_and_references_and_prints_a_number(tmp_path: Path) -> None:
    command = program(tmp_path, EXACT)
    assert run_score_command(command, COLUMNS) == 50
    assert run_score_command(f"{command} {{references}} {{references}}", COLUMNS) == 100
    percent = program(tmp_path, "print('7 of', open(paths[0]).read(), '25%')", "percent.py")
    assert run_score_command(f"{percent} {{sources}}", COLUMNS) == 25


def test_files_are_named_where_the_command_says_or_at_its_end() -> None:
    files = {name: Path("/tmp", name) for name in COLUMNS}
    assert fill_in("a 'b c'", files) == ["a", "b c", "/tmp/hypotheses", "/tmp/references"]
    assert fill_in("a -s={sources} b", files) == ["a", "-s=/tmp/sources", "b"]


def test_no_shell_reads_the_command_and_lines_stay_lines(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = program(tmp_path, "print(len(open(paths[-2]).read().splitlines()))")
    lines = {"hypotheses": ["a\nb\u2028c", "d"], "references": ["e", "f"], "sources": ["g", "h"]}
    assert run_score_command(f"{command} ; touch {mark} $(touch {mark})", lines) == 2
    assert not mark.exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('none')", "should print a number, but printed none"),
        ("print('nan')", "should print a number, but printed nan"),
        ("", "should print a number, but printed nothing"),
        ("sys.exit('no model \\x1b[2J')", r"ended with code 1: no model \\x1b\[2J$"),
        ("print('no such metric'); sys.exit(3)", "ended with code 3: no such metric"),
    ],
)
def test_a_command_without_a_number_says_why(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        run_score_command(program(tmp_path, body), COLUMNS)


def test_a_larger_number_of_a_command_is_better_unless_the_user_says_otherwise() -> None:
    kinds: list[tuple[dict[str, Any], str, str]] = [
        ({"monitor": "exact"}, "valid/exact", "max"),
        ({"monitor": "ser"}, "valid/ser", "min"),
        ({"monitor": "loss"}, "valid/loss", "min"),
        ({"monitor": "command:cat"}, "valid/command", "max"),
        ({"monitor": "command:cat", "mode": "min"}, "valid/command", "min"),
    ]
    for given, metric, direction in kinds:
        options = CheckpointOptions(**given)
        assert (options.metric, options.direction) == (metric, direction)


@pytest.mark.parametrize("name", ["exact", "ser"])
def test_symbols_choose_by_the_score_of_the_whole_validation(base: Path, name: str) -> None:
    run = train_tiny(base, *RUN, f"checkpoint.monitor={name}", "checkpoint.patience=3")
    scores = metrics(run, f"valid/{name}")
    assert len(scores) == 2
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert result["monitor"] == name
    assert result["value"] == pytest.approx((max if name == "exact" else min)(scores))


def test_a_command_chooses_and_stops_a_run_and_its_time_is_reported(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # After the trial: better, then worse and worse: patience ends the run, the second is the best.
    log = tmp_path / "calls"
    command = program(
        tmp_path,
        f"log = open({str(log)!r}, 'a'); log.write('x'); log.close()\n"
        f"print([9, 5, 3, 4, 6, 7][len(open({str(log)!r}).read()) - 1])",
    )
    options = (typed(command), "checkpoint.mode=min", "checkpoint.patience=2")
    run = train_tiny(base, *RUN, "trainer.max_steps=20", "schedule.steps=20", *options)
    assert metrics(run, "valid/command") == [5, 3, 4, 6]
    assert all(seconds > 0 for seconds in metrics(run, "valid/command_seconds"))
    assert torch.load(run / "best.ckpt", weights_only=True)["global_step"] == 4
    assert torch.load(run / "last.ckpt", weights_only=True)["global_step"] == 8
    printed = capsys.readouterr().out
    assert "  command 3 (" in printed and " s)" in printed and "best command 3.00" in printed
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert (result["monitor"], result["value"]) == ("command", 3)


def test_a_command_that_equals_a_metric_gives_its_score(base: Path, tmp_path: Path) -> None:
    command = program(tmp_path, "import sacrebleu\n" + CHRF)
    run = train_tiny(base, *RUN, typed(command), "optimizer.lr=1e-2")
    for mine, other in zip(metrics(run, "valid/command"), metrics(run, "valid/chrf"), strict=True):
        assert mine == pytest.approx(other, abs=1e-4)


CHRF = """
hypotheses, references = (open(path, encoding="utf-8").read().splitlines() for path in paths)
print(sacrebleu.corpus_chrf(hypotheses, [references]).score)
"""


def test_a_command_that_fails_is_noticed_before_training(base: Path, tmp_path: Path) -> None:
    bad = typed(program(tmp_path, "oops"))
    for more in ((), ("dry_run=true",)):
        with pytest.raises(ConfigError, match=r"ended with code 1") as caught:
            train_again(tmp_path / "run", *tiny_overrides(base), *RUN, bad, *more)
        assert "resume=" not in str(caught.value)
    # One that fails later says where to go on.
    log = tmp_path / "calls"
    body = f"log = open({str(log)!r}, 'a'); log.write('x'); log.close()\n"
    body += f"print(1 if len(open({str(log)!r}).read()) < 3 else sys.exit('full'))"
    options = (typed(program(tmp_path, body)), "checkpoint.every=2")
    with pytest.raises(ConfigError, match="full") as caught:
        train_again(tmp_path / "run", *tiny_overrides(base), *RUN, *options)
    assert f"resume={tmp_path / 'run' / 'last.ckpt'} continues" in str(caught.value)


@pytest.mark.slow
def test_a_run_that_is_resumed_chooses_as_before(base: Path, tmp_path: Path) -> None:
    command = typed(program(tmp_path, "print(1)"))
    for before, now, said in (
        (
            (command, "checkpoint.mode=min"),
            (command,),
            "checkpoint.mode=min, but this run has checkpoint.mode=max",
        ),
        (
            ("checkpoint.monitor=loss",),
            (),
            "checkpoint.monitor=loss, but this run has checkpoint.monitor=bleu",
        ),
    ):
        run = train_tiny(base, *RUN, *before)
        best = (run / "best.ckpt").read_bytes()
        typed_again = (*tiny_overrides(base), *RUN, "trainer.max_steps=6", "schedule.steps=6")
        with pytest.raises(ConfigError, match=said):
            train_again(run, *typed_again, *now, f"resume={run / 'last.ckpt'}")
        assert (run / "best.ckpt").read_bytes() == best


def test_a_run_that_patience_has_ended_stays_ended(base: Path, tmp_path: Path) -> None:
    options = (*tiny_overrides(base), *RUN, "trainer.max_steps=40", "schedule.steps=40")
    options += (typed(program(tmp_path, "print(1)")), "checkpoint.patience=2")
    run, ends = tmp_path / "run", []
    for resume in ((), (f"resume={run / 'last.ckpt'}",)):
        train_again(run, *options, *resume)
        ends.append(torch.load(run / "last.ckpt", weights_only=True)["global_step"])
    assert ends == [6, 6]


@pytest.mark.slow
def test_of_several_processes_the_first_runs_the_command_on_the_translations_of_all(
    base: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    log = f"open({str(calls)!r}, 'a').write('x')"
    body = f"{log}\nprint(len(open(paths[0]).readlines()))"
    options = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
    run = tmp_path / "run"
    command = train_command(base, run, *RUN, *options, typed(program(tmp_path, body)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    assert metrics(run, "valid/command") == [8, 8]
    assert calls.read_text() == "xxx", "the trial and two validations"
    # If it fails, both end, and the message is there once.
    bad = train_command(base, tmp_path / "bad", *RUN, *options, typed(program(tmp_path, "oops")))
    ended = subprocess.run(
        bad, check=False, capture_output=True, text=True, timeout=300, env=environment
    )
    assert ended.returncode and ended.stderr.count("ended with code 1") == 1


def test_a_command_in_a_checkpoint_is_shown_and_never_run(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "mark"
    command = program(tmp_path, "print(1)")
    run = train_tiny(base, *RUN, typed(command))
    # Whoever changes a file puts another one in.
    evil = f"touch {shlex.quote(str(mark))}"
    content = torch.load(run / "last.ckpt", weights_only=True)
    entry = content[checkpoint.ENTRY]
    assert entry["config"]["monitor"] == f"command:{command}"
    entry["config"]["monitor"] = f"command:{evil}"
    changed = tmp_path / "changed.ckpt"
    torch.save(content, changed)
    options = tiny_overrides(base)
    for own in ((), (typed(command),)):
        with pytest.raises(ConfigError, match="shown, but never run") as caught:
            train_again(tmp_path / "next", *options, *RUN, *own, f"resume={changed}")
        assert evil in str(caught.value)
    train_again(tmp_path / "start", *options, *RUN, f"init={changed}", "tokenizer=checkpoint")
    Translator.load(changed, "cpu").translate(["Ein Hund."])
    assert not mark.exists()
    # Typed by the user, it continues.
    train_again(run, *options, *RUN, typed(command), f"resume={run / 'last.ckpt'}")

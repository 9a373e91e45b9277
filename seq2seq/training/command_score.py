"""Validation with any program that reads translations and references and prints a number."""

import math
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import torch.distributed as dist

from seq2seq.base.errors import ConfigError, escape
from seq2seq.training.callbacks import gather_from_all, group_of_hosts
from seq2seq.training.checkpointing import describe_resume
from seq2seq.training.module import ValidationSentence

TRIED = 8  # number of references in the trial run of a command
SHOWN = 300  # characters of a command's output that a message quotes
# Variables hidden from the program: if it uses torch, they would make it join a process group.
PROCESS_GROUP = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

Columns = Mapping[str, Sequence[str]]  # "hypotheses", "references", "sources" -> lines of text


class CommandScore(L.Callback):
    """At each validation, logs the number that a command prints and the seconds that it took.

    The first process runs the command, on the translations of all processes.

    Args:
        command: command line; see `fill_in`.
        minutes: longest wait of the other processes for the command.
    """

    def __init__(self, command: str, minutes: float):
        self.command, self.minutes = command, minutes

    def on_fit_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Try the command on a few references before hours of training depend on it."""
        self.group = group_of_hosts(trainer, self.minutes)
        self._run(trainer, trial_of(pl_module.sentences))

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        parts, started_at = gather_from_all(pl_module.translations), time.perf_counter()
        found = sorted(chain.from_iterable(part.items() for part in parts))
        sentences = [pl_module.sentences[row] for row, _ in found]
        columns = columns_of(sentences, [translation for _, translation in found])
        pl_module.log("valid/command", self._run(trainer, columns), sync_dist=True)
        seconds = trainer.strategy.broadcast(time.perf_counter() - started_at)
        pl_module.log("valid/command_seconds", seconds, sync_dist=True)

    def _run(self, trainer: L.Trainer, columns: Columns) -> float:
        """Run the command in the first process, and return the score in all processes.

        Raises: ConfigError in the first process, and SystemExit in the others, if it fails.
        """
        score, problem = math.nan, ""
        if trainer.is_global_zero:
            try:
                score = run_score_command(self.command, columns)
            except ConfigError as error:  # raised below, once the other processes know
                problem = str(error)
        told = [(score, problem)]
        if self.group is not None:  # NCCL would abort a process that waits too long
            dist.broadcast_object_list(told, group=self.group)
        score, problem = told[0]
        if not problem:
            return score
        if trainer.is_global_zero:
            raise ConfigError(problem + describe_resume(trainer))
        raise SystemExit(2)  # the first process says why


def trial_of(text: Mapping[int, ValidationSentence]) -> Columns:
    """Input for a trial run: the first few references, which also serve as translations."""
    first = list(text.values())[:TRIED]
    return columns_of(first, [each.reference for each in first])


def columns_of(sentences: Sequence[ValidationSentence], translations: Sequence[str]) -> Columns:
    """The lines that a command may read about some sentences and their translations."""
    sources, references, _ = zip(*sentences, strict=True)
    return {"hypotheses": translations, "references": references, "sources": sources}


def run_score_command(command: str, columns: Columns) -> float:
    """Run a command and return the last number that it prints.

    Args:
        columns: lines of each file that the command may read.

    Raises: ConfigError if the command cannot be started, fails, or prints no number.
    """
    try:
        with TemporaryDirectory(prefix="seq2seq-") as folder:
            files = {name: Path(folder, f"{name}.txt") for name in columns}
            for name, lines in columns.items():
                text = "".join(f"{' '.join(line.splitlines())}\n" for line in lines)
                files[name].write_text(text, encoding="utf-8")
            done = run_alone(fill_in(command, files))
    except OSError as error:
        raise ConfigError(f"checkpoint.monitor=command:{command}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-SHOWN:] or "it said nothing"
        raise ConfigError(
            f"checkpoint.monitor=command:{command} ended with code {done.returncode}: "
            f"{escape(said)}"
        )
    return last_number(command, done.stdout)


def run_alone(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program in its own session, so that Ctrl-C reaches only the training. If this call is
    interrupted, the program and everything that it started are killed.
    """
    environment = {name: value for name, value in os.environ.items() if name not in PROCESS_GROUP}
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def fill_in(command: str, files: Mapping[str, Path]) -> list[str]:
    """Split a command into arguments as a shell would, and fill in paths; no shell is involved.

    `{hypotheses}`, `{references}` and `{sources}` become the paths of these files. If the command
    contains none of the three, the paths of the first two are appended.
    """
    arguments, marks = shlex.split(command), {f"{{{name}}}": str(files[name]) for name in files}
    if not any(mark in argument for mark in marks for argument in arguments):
        arguments += ["{hypotheses}", "{references}"]
    for mark, path in marks.items():
        arguments = [argument.replace(mark, path) for argument in arguments]
    return arguments


def last_number(command: str, output: str) -> float:
    for word in reversed(output.split()):
        with suppress(ValueError):
            number = float(word.rstrip("%"))
            if math.isfinite(number):
                return number
            break
    raise ConfigError(
        f"checkpoint.monitor=command:{command} should print a number, but printed "
        f"{escape(output.strip()[-SHOWN:]) or 'nothing'}"
    )

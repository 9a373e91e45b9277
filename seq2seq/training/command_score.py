"""Validation by any program that reads translations and references and prints a number."""

import math
import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import torch.distributed as dist

from seq2seq.errors import ConfigError, escape

SHOWN = 300  # characters of a command's output in a message
# A program that uses torch itself would take these for a training of several processes.
PROCESS_GROUP = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class CommandScore(L.Callback):
    """Logs the number that a command prints, and the seconds that it took, at each validation.

    The first process runs it, on the translations of all.

    Args:
        command: see `fill_in`.
        text: (source, reference) of each row that is translated.
    """

    def __init__(self, command: str, text: Sequence[tuple[str, str]]):
        self.command, self.text = command, text
        self.translations: dict[int, str] = {}

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.translations = {}

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, index: int, *_: Any
    ) -> None:
        pairs = outputs["translations"].items()
        self.translations |= {row: translation for row, (translation, _) in pairs}

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        translations, result = gather_rows(self.translations), ""
        score, started_at = math.nan, time.perf_counter()
        if trainer.is_global_zero:
            rows = sorted(translations)
            columns = {
                "hypotheses": [translations[row] for row in rows],
                "references": [self.text[row][1] for row in rows],
                "sources": [self.text[row][0] for row in rows],
            }
            try:
                score = run_score_command(self.command, columns)
            except ConfigError as error:  # raised below, after the others know
                result = str(error)
        seconds = time.perf_counter() - started_at
        score, seconds, result = trainer.strategy.broadcast((score, seconds, result))
        if result:
            if trainer.is_global_zero:
                raise ConfigError(result)
            raise SystemExit(2)  # the first process says why
        pl_module.log("valid/command", score, sync_dist=True)
        pl_module.log("valid/command_seconds", seconds, sync_dist=True)


def gather_rows(mine: dict[int, str]) -> dict[int, str]:
    """The translations of all processes."""
    if not (dist.is_initialized() and dist.get_world_size() > 1):
        return mine
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, mine)
    return {row: text for part in parts for row, text in part.items()}


def run_score_command(command: str, columns: Mapping[str, Sequence[str]]) -> float:
    """The last number that a command prints.

    Args:
        columns: the text of each file that it may read, a line each.

    Raises: ConfigError if it cannot be started, fails, or prints no number.
    """
    environment = {name: value for name, value in os.environ.items() if name not in PROCESS_GROUP}
    with TemporaryDirectory(prefix="seq2seq-") as folder:
        files = {name: Path(folder, f"{name}.txt") for name in columns}
        for name, lines in columns.items():
            text = "".join(f"{' '.join(line.splitlines())}\n" for line in lines)
            files[name].write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                fill_in(command, files),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=environment,
                start_new_session=True,  # Ctrl-C is for the training
                check=False,
            )
        except OSError as error:
            raise ConfigError(f"checkpoint.monitor=command:{command}: {error}") from error
    if done.returncode:
        raise ConfigError(
            f"checkpoint.monitor=command:{command} ended with code {done.returncode}: "
            f"{escape(done.stderr.strip()[-SHOWN:])}. resume= continues, once that is mended"
        )
    return last_number(command, done.stdout)


def fill_in(command: str, files: Mapping[str, Path]) -> list[str]:
    """The arguments of a command, divided as a shell does, but no shell runs it.

    `{hypotheses}`, `{references}` and `{sources}` in it become the paths of these files; where it
    names none, the first two are added at its end.
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

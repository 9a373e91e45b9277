"""The jobs of a sweep, each of which may fail alone, and the processes of a run.

A launcher may run jobs in other processes or on other machines, so outcomes are read from the jobs'
folders: result.json if a job succeeded, error.txt if it failed. `launch` imports this module, so
torch is imported only in the functions that use it.
"""

import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from seq2seq.base.durable import write_text
from seq2seq.base.environment import usable_cores
from seq2seq.base.errors import ConfigError, Seq2SeqError, fail, format_count
from seq2seq.training.config.options import TrainerOptions

RESULT = "result.json"  # file in a run's folder with its best score
ERROR = "error.txt"  # file in the folder of a failed job with the reason


class JobFailedError(Exception):
    """Raised after a job of a sweep failed and its message was printed."""


class Sweep(Callback):
    """Hydra callback that finds out how the jobs of a sweep ended; named in conf/train.yaml."""

    started: ClassVar["Sweep | None"] = None  # set in the process that starts the jobs

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        self.folder = Path(config.hydra.sweep.dir).absolute()
        self.before = self._outcomes()
        Sweep.started = self

    def summary(self) -> str:
        """The outcomes of all jobs, one line each, in the order in which they ended; empty after
        dry runs.
        """
        outcomes = self._outcomes().items()
        ended = sorted((time, path) for path, time in outcomes if self.before.get(path) != time)
        if not ended:
            return ""
        lines = {path.parent.relative_to(self.folder): describe_outcome(path) for _, path in ended}
        width = max(len(str(name)) for name in lines)
        failed = sum(line.startswith("failed: ") for line in lines.values())
        count = format_count(len(lines), "job") + (f", {failed} of them failed" if failed else "")
        listed = (f"  {name!s:<{width}}  {line}" for name, line in lines.items())
        return "\n".join((f"sweep of {count}: {self.folder}", *listed))

    def _outcomes(self) -> dict[Path, int]:
        """The outcome files of all jobs, and when each was written, in nanoseconds."""
        outcomes = {}
        for path in chain(*(self.folder.glob(f"*/{name}") for name in (RESULT, ERROR))):
            with suppress(OSError):  # the file may vanish meanwhile
                outcomes[path] = path.stat().st_mtime_ns
        return outcomes


def describe_outcome(path: Path) -> str:
    """The outcome of a job: its score, such as `bleu 31.20`, or the first line of its error."""
    text = path.read_text(encoding="utf-8")
    if path.name == ERROR:
        return "failed: " + text.partition("\n")[0]
    result = json.loads(text)
    value = result["value"]
    return "no validation" if value is None else f"{result['monitor']} {value:.2f}"


def is_job() -> bool:
    """True if this process trains a job of a sweep."""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def run_job(fit: Callable[[DictConfig], float | None], config: DictConfig) -> float | None:
    """Train one job.

    Raises: JobFailedError if the job fails. Its message is printed before, and written to
        error.txt. Hydra then starts the next job, and raises the first of these errors when all
        jobs have ended.
    """
    folder = Path(HydraConfig.get().runtime.output_dir)
    (folder / ERROR).unlink(missing_ok=True)
    try:
        return fit(config)
    except Seq2SeqError as error:
        fail(str(error))
        reason = str(error)
    except Exception as error:  # a bug, or out of memory; the other jobs should still run
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    write_text(folder / ERROR, f"{reason}\n")
    # Not inside `except`: this error outlives the job. Chained to the first error, it would keep
    # the model alive.
    raise JobFailedError(reason)


def needs_fresh_processes(options: TrainerOptions) -> bool:
    """True if this is a job of a sweep that must be trained in new processes."""
    return is_job() and "LOCAL_RANK" not in os.environ and has_several_processes(options)


def has_several_processes(options: TrainerOptions) -> bool:
    """True if a run with these options has one process for each of several devices."""
    if options.strategy != "auto" or options.num_nodes > 1:
        return True
    if options.devices in ("auto", -1, "-1"):
        import torch

        return options.accelerator != "cpu" and torch.cuda.device_count() > 1
    if isinstance(options.devices, list):
        return len(options.devices) > 1
    return str(options.devices) != "1"


def check_processes(options: TrainerOptions) -> None:
    """Check the number of processes of a run on CPUs.

    Raises: ConfigError if more processes than cores would be started; two may share a core.
    """
    if "LOCAL_RANK" in os.environ or int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        return  # already started by torchrun or Slurm, which may give each process its own core
    import torch

    gpu = options.accelerator == "auto" and torch.cuda.is_available()
    if options.accelerator == "gpu" or gpu:
        return
    count, limit = str(options.devices), max(2, usable_cores())
    if count.isdecimal() and int(count) > limit:
        raise ConfigError(
            f"trainer.devices={count} would start {count} processes on {usable_cores()} core(s): "
            f"type trainer.devices={limit}, or fewer"
        )


def leave_process_group() -> None:
    """Close the connections of this process to the others of its run, and end their threads.

    Lightning leaves a process group of CPUs (gloo) open. An interpreter that exits while its
    threads run sometimes aborts, so that a successful run would count as failed.
    """
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def run_in_fresh_processes() -> float | None:
    """Run this process's job of a sweep as a separate command, in the job's folder.

    Returns: the best validation score, as `train` does.
    Raises: ConfigError if the command fails; it has printed a message of its own by then.
    """
    hydra = HydraConfig.get()
    folder, typed = hydra.runtime.output_dir, [*hydra.overrides.task, "hydra.mode=RUN"]
    if code := run_training(typed, folder, hydra.runtime.cwd):
        raise ConfigError(f"job {hydra.job.num} of the sweep ended with code {code}")
    value: float | None = json.loads(Path(folder, RESULT).read_text(encoding="utf-8"))["value"]
    return value


def run_training(overrides: Sequence[str], folder: Path | str, cwd: str | None = None) -> int:
    """Train with these options in a process of its own. Returns: its exit code.

    Args:
        folder: folder of the run.
        cwd: folder in which the process runs; None = that of this process.
    """
    command = [sys.executable, "-m", "seq2seq.training", *overrides]
    return subprocess.run([*command, f"hydra.run.dir={quote(folder)}"], cwd=cwd).returncode


def quote(value: object) -> str:
    """Quote a value for Hydra, so that it may contain any characters."""
    escaped = re.sub(r'(\\+)(?="|$)', r"\1\1", str(value)).replace('"', '\\"')
    return f'"{escaped}"'

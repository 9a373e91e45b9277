"""The jobs of a sweep: one that fails says so at once, and the others go on.

A launcher may run jobs in processes, or on machines, of their own. What they come to is read from
their folders: result.json where one ended well, error.txt where it did not.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from seq2seq.environment import usable_cores
from seq2seq.errors import ConfigError, Seq2SeqError, fail
from seq2seq.training.config.options import TrainerOptions

RESULT = "result.json"  # in a run's folder: its best score, for whoever started it
ERROR = "error.txt"  # in the folder of a job that failed: why


class JobFailedError(Exception):
    """A job of a sweep failed, and has said why."""


class Sweep(Callback):
    """Where a sweep goes, and what was there before; Hydra makes one, as conf/train.yaml asks."""

    begun: ClassVar["Sweep | None"] = None  # in the process that starts the jobs

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        self.folder = Path(config.hydra.sweep.dir).absolute()
        self.before = self._outcomes()
        Sweep.begun = self

    def summary(self) -> str:
        """How many jobs ended and how: a line each, in the order in which they ended; nothing of
        dry runs.
        """
        found = self._outcomes().items()
        ended = sorted((time, path) for path, time in found if self.before.get(path) != time)
        lines = {str(path.parent.relative_to(self.folder)): outcome(path) for _, path in ended}
        width = max(map(len, lines), default=0)
        failed = sum(line.startswith("failed: ") for line in lines.values())
        count = f"{len(lines)} jobs" + (f", {failed} of them failed" if failed else "")
        listed = (f"  {name:<{width}}  {line}" for name, line in lines.items())
        if not lines:
            return ""
        return "\n".join((f"sweep of {count}: {self.folder}", *listed))

    def _outcomes(self) -> dict[Path, int]:
        """The files that say what a job came to, and when they were written, in nanoseconds."""
        found = {}
        for path in chain(*(self.folder.glob(f"*/{name}") for name in (RESULT, ERROR))):
            with suppress(OSError):  # it may vanish meanwhile
                found[path] = path.stat().st_mtime_ns
        return found


def outcome(path: Path) -> str:
    """`bleu 31.20`, or the first line of what went wrong."""
    text = path.read_text(encoding="utf-8")
    if path.name == ERROR:
        return "failed: " + text.partition("\n")[0]
    result = json.loads(text)
    return (
        "no validation" if result["value"] is None else f"{result['monitor']} {result['value']:.2f}"
    )


def is_job() -> bool:
    """Is the configuration in hand one of a sweep?"""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def run_job(fit: Callable[[DictConfig], float | None], config: DictConfig) -> float | None:
    """Train one job.

    Raises: JobFailedError after a message, which is left in error.txt. Hydra then begins the next
    job, and raises the first of these errors when all have ended.
    """
    folder = Path(HydraConfig.get().runtime.output_dir)
    (folder / ERROR).unlink(missing_ok=True)
    try:
        return fit(config)
    except Seq2SeqError as error:
        fail(str(error))
        reason = str(error)
    except Exception as error:  # a bug, or no memory left; no reason to lose the other jobs
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    (folder / ERROR).write_text(f"{reason}\n", encoding="utf-8")
    # Not inside `except`: this error outlives the job, and would keep the model of the first alive.
    raise JobFailedError(reason)


def is_job_of_a_sweep_with_many_processes(options: TrainerOptions) -> bool:
    """Does this process have to hand its job to a fresh process tree?"""
    sweeping = HydraConfig.get().mode == RunMode.MULTIRUN
    return sweeping and "LOCAL_RANK" not in os.environ and wants_many_processes(options)


def wants_many_processes(options: TrainerOptions) -> bool:
    if options.strategy != "auto" or options.num_nodes > 1:
        return True
    if options.devices in ("auto", -1, "-1"):
        return options.accelerator != "cpu" and torch.cuda.device_count() > 1
    if isinstance(options.devices, list):
        return len(options.devices) > 1
    return str(options.devices) != "1"


def check_processes(options: TrainerOptions) -> None:
    """Raises: ConfigError if more processes than cores would be started; two may try it on one."""
    if "LOCAL_RANK" in os.environ or int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        return  # started already, by torchrun or Slurm, which may give each a core of its own
    gpu = options.accelerator == "auto" and torch.cuda.is_available()
    if options.accelerator == "gpu" or gpu:
        return
    count, most = str(options.devices), max(2, usable_cores())
    if count.isdecimal() and int(count) > most:
        raise ConfigError(
            f"trainer.devices={count} would start {count} processes on {usable_cores()} core(s): "
            f"trainer.devices={most}, or fewer"
        )


def leave_process_group() -> None:
    """End the threads by which this process talks to the others of its run.

    Lightning leaves the group of CPU processes (gloo) standing, and an interpreter that exits while
    its threads run is aborted now and then: a training that ended well would be called failed.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def run_in_fresh_processes() -> float | None:
    """Run the job of a sweep that this process is at, as a command of its own in the job's folder.

    Returns: its best validation score, as `train` does.
    Raises: ConfigError if the command fails; it has said why.
    """
    hydra = HydraConfig.get()
    folder = hydra.runtime.output_dir
    quoted = folder.replace("\\", "\\\\").replace('"', '\\"')
    command = [sys.executable, "-m", "seq2seq.training", *hydra.overrides.task]
    command += [f'hydra.run.dir="{quoted}"', "hydra.mode=RUN"]
    ended = subprocess.run(command, cwd=hydra.runtime.cwd)
    if ended.returncode:
        raise ConfigError(f"job {hydra.job.num} of the sweep ended with code {ended.returncode}")
    value: float | None = json.loads(Path(folder, RESULT).read_text(encoding="utf-8"))["value"]
    return value

"""Runs of several processes; a job of a sweep that needs them gets a fresh process tree.

Lightning starts the other processes of a run by repeating the command. Left alone, those of a
sweep's first job would run the whole sweep again, in another folder.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from seq2seq.environment import usable_cores
from seq2seq.errors import ConfigError
from seq2seq.training.options import TrainerOptions
from seq2seq.training.sweep import RESULT


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

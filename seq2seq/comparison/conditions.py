"""Measure fairly: an idle machine, candidates that take turns, and the conditions in one line."""

import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

T = TypeVar("T")

BUSY = 0.15  # cores that other processes may use, on average over a second


class BusyMachineError(SystemExit):
    """Raised if other processes use too much of the CPU for a fair measurement."""


@dataclass
class Load:
    """The average number of cores that other processes kept busy."""

    cores: float = 0.0


@contextmanager
def foreign_load(used_seconds: Callable[[], float] = time.process_time) -> Iterator[Load]:
    """Measure the load by other processes during the `with` block; 0 if the system does not report
    it.

    Args:
        used_seconds: function that returns the CPU seconds used so far by the measured processes;
            by default those of this process.
    """
    load = Load()
    start, used, busy = time.perf_counter(), used_seconds(), busy_seconds()
    yield load
    used, busy = used_seconds() - used, busy_seconds() - busy
    load.cores = max(0.0, busy - used) / (time.perf_counter() - start)


def busy_seconds() -> float:
    """The busy seconds of all cores together since the machine started."""
    if not Path("/proc/stat").is_file():
        return 0.0
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    ticks = [int(field) for field in fields]
    idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    return (sum(ticks[:8]) - idle) / os.sysconf("SC_CLK_TCK")


def await_idle(patience: float = 60.0) -> None:
    """Wait until the machine is idle.

    Raises: BusyMachineError if it is still busy after `patience` seconds.
    """
    end = time.monotonic() + patience
    while True:
        with foreign_load() as load:
            time.sleep(1.0)
        if load.cores <= BUSY:
            return
        if time.monotonic() > end:
            raise BusyMachineError(
                f"other processes keep {load.cores:.2f} cores busy, so times would mean nothing: "
                "stop them, or pass --anyway"
            )


def interleave(
    candidates: Mapping[str, Callable[[int], T]], rounds: int, warmup: int
) -> dict[str, list[T]]:
    """Let all candidates take turns, round by round, so that all meet the same disturbances.

    Args:
        candidates: functions by name; each takes the number of the round and returns a measurement.
        rounds: number of measured rounds.
        warmup: number of rounds before the measured ones.

    Returns: the measurements of the measured rounds, by name.
    """
    results = [
        {name: run(index) for name, run in candidates.items()} for index in range(warmup + rounds)
    ]
    return {name: [result[name] for result in results[warmup:]] for name in candidates}


def conditions() -> str:
    """The conditions of a measurement in one line."""
    return (
        f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python "
        f"{platform.python_version()}, OMP_WAIT_POLICY={os.environ.get('OMP_WAIT_POLICY', 'unset')}"
    )


def processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.is_file() else ""
    name = re.search(r"^model name\s*:(.*)", text, re.M)
    return name[1].strip() if name else platform.processor() or platform.machine()

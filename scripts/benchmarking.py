"""Figures of a process, and the spread of several, for the benchmark scripts."""

import os
import re
import statistics
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """The CPU seconds of a process so far, on all cores; 0 if the system does not report them."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.is_file():
        return 0.0
    # The fields follow the name in brackets, which may contain anything.
    fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int | str = "self") -> int:
    """The resident bytes of a process; 0 if the system does not report them."""
    status = Path(f"/proc/{pid}/status")
    if not status.is_file():
        return 0
    match = re.search(r"^VmRSS:\s+(\d+) kB", status.read_text(encoding="utf-8"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def spread(values: list[float]) -> str:
    """The values in the form `median (lowest - highest)`."""
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} - {max(values):,.0f})"

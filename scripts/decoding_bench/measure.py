"""Rounds in which all candidates translate the same sentences in turn."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from benchmarking import BUSY, BusyMachineError, await_idle, foreign_load

from decoding_bench.candidates import BatchSize, Candidate
from decoding_bench.crews import CannotError, Crew, Job

ATTEMPTS = 20
TICK = 0.01  # seconds: how finely the system counts the work of processes


class Run(NamedTuple):
    """One translation of all the sentences."""

    seconds: float
    load: float  # cores that other processes used meanwhile
    disturbed: int = 0  # runs before it that do not count, because other processes were at work


class Result(NamedTuple):
    """What a candidate did in the rounds that count."""

    candidate: Candidate
    runs: list[Run]
    found: list[list[int]]  # the best hypothesis of each sentence, without eos
    batch_size: BatchSize | None
    resident: int  # bytes of memory that its processes hold at the end, together

    @property
    def seconds(self) -> list[float]:
        return [run.seconds for run in self.runs]

    @property
    def typical(self) -> float:
        """Seconds, median of the rounds."""
        return median(self.seconds)


@dataclass
class Measured:
    """All that was measured for a job."""

    job: Job
    results: dict[str, Result]
    left_out: list[str] = field(default_factory=list)


@dataclass
class Protocol:
    """How it is measured.

    Attributes:
        rounds: that count.
        warmup: rounds before them.
        batch_sizes: of which an engine that has them gets its best.
        anyway: count runs beside which other processes were at work.
    """

    rounds: int = 5
    warmup: int = 2
    batch_sizes: Sequence[BatchSize] = ()
    anyway: bool = False

    def measure(self, crews: dict[str, Crew], job: Job, rows: Sequence[list[int]]) -> Measured:
        """Raises: BusyMachineError if other processes do not stop."""
        going, sizes, left_out = {}, {}, []
        for name, crew in crews.items():
            print(f"{job.title}: preparing {name}", file=sys.stderr, flush=True)
            try:
                sizes[name] = self._prepare(crew, job, rows)
                going[name] = crew
            except CannotError as error:
                left_out.append(f"`{name}`: {error}")
        if not self.anyway:
            await_idle()
        runs = self._rounds(going)
        results = {
            name: Result(crew.candidate, runs[name], crew.found(), sizes[name], crew.resident())
            for name, crew in going.items()
        }
        return Measured(job, results, left_out)

    def _prepare(self, crew: Crew, job: Job, rows: Sequence[list[int]]) -> BatchSize | None:
        """Hand out the sentences. Returns: the batch size that was fastest, if it has one."""
        units = crew.candidate.batch_units
        if not units:
            crew.prepare(job, rows, None)
            return None
        tried = {}
        for size in (size for size in self.batch_sizes if size.unit in units):
            crew.prepare(job, rows, size)
            crew.go()  # what is set up at first is not counted
            tried[size] = crew.go()
        best = min(tried, key=tried.__getitem__)
        crew.prepare(job, rows, best)
        return best

    def _rounds(self, crews: dict[str, Crew]) -> dict[str, list[Run]]:
        """Runs that count of each candidate, taking turns."""
        for crew in crews.values():
            for _ in range(self.warmup):
                crew.go()
        runs: dict[str, list[Run]] = {name: [] for name in crews}
        for _ in range(self.rounds):
            for name, crew in crews.items():
                runs[name].append(self._undisturbed(crew))
        return runs

    def _undisturbed(self, crew: Crew) -> Run:
        """A run beside which no other process was at work, after some attempts if need be.

        Raises: BusyMachineError if other processes do not stop.
        """

        def used() -> float:
            return time.process_time() + crew.cpu_seconds()

        for disturbed in range(ATTEMPTS):
            with foreign_load(used) as load:
                seconds = crew.go()
            # Of a short run the clock of the system sees too little to tell.
            if self.anyway or load.cores * seconds <= max(BUSY * seconds, 3 * TICK):
                return Run(seconds, load.cores, disturbed)
            await_idle()
        raise BusyMachineError(
            f"other processes disturbed {crew.candidate.name} {ATTEMPTS} times in turn: stop them, "
            "or pass --anyway"
        )

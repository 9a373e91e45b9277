"""Interleaved rounds, in which all candidates translate the same sentences."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from decoding_bench.candidates import BatchSize, Candidate
from decoding_bench.crews import CannotError, Crew, Job
from seq2seq.comparison.conditions import BUSY, BusyMachineError, await_idle, foreign_load

ATTEMPTS = 20
TICK = 0.01  # seconds: resolution of the CPU times of processes


class Run(NamedTuple):
    """One translation of all the sentences."""

    seconds: float
    load: float  # cores that other processes used meanwhile
    disturbed: int = 0  # discarded runs before it, because other processes were active


class Result(NamedTuple):
    """The measured rounds of a candidate."""

    candidate: Candidate
    runs: list[Run]
    hypotheses: list[list[int]]  # the best hypothesis of each sentence, without EOS
    batch_size: BatchSize | None
    resident: int  # bytes of its processes at the end, in total

    @property
    def seconds(self) -> list[float]:
        return [run.seconds for run in self.runs]

    @property
    def typical(self) -> float:
        """Median seconds of a round."""
        return median(self.seconds)


@dataclass
class Measured:
    """All results of a job."""

    job: Job
    results: dict[str, Result]
    left_out: list[str] = field(default_factory=list)


@dataclass
class Protocol:
    """How jobs are measured.

    Attributes:
        rounds: measured rounds.
        warmup: rounds before the measured ones.
        batch_sizes: candidates, of which each engine with a batch size gets its fastest.
        anyway: also count runs while other processes were active.
    """

    rounds: int = 5
    warmup: int = 2
    batch_sizes: Sequence[BatchSize] = ()
    anyway: bool = False

    def measure(self, crews: dict[str, Crew], job: Job, rows: Sequence[list[int]]) -> Measured:
        """Raises: BusyMachineError if the machine stays busy."""
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
            name: Result(c.candidate, runs[name], c.hypotheses(), sizes[name], c.resident())
            for name, c in going.items()
        }
        return Measured(job, results, left_out)

    def _prepare(self, crew: Crew, job: Job, rows: Sequence[list[int]]) -> BatchSize | None:
        """Distribute the sentences. Returns: the fastest batch size, if the engine has one."""
        units = crew.candidate.batch_units
        if not units:
            crew.prepare(job, rows, None)
            return None
        tried = {}
        for size in (size for size in self.batch_sizes if size.unit in units):
            crew.prepare(job, rows, size)
            crew.go()  # warms up
            tried[size] = crew.go()
        best = min(tried, key=tried.__getitem__)
        crew.prepare(job, rows, best)
        return best

    def _rounds(self, crews: dict[str, Crew]) -> dict[str, list[Run]]:
        """The measured runs of each candidate, taking turns."""
        for crew in crews.values():
            for _ in range(self.warmup):
                crew.go()
        runs: dict[str, list[Run]] = {name: [] for name in crews}
        for _ in range(self.rounds):
            for name, crew in crews.items():
                runs[name].append(self._undisturbed(crew))
        return runs

    def _undisturbed(self, crew: Crew) -> Run:
        """A run without other active processes, after some attempts if necessary.

        Raises: BusyMachineError if the machine stays busy.
        """

        def used() -> float:
            return time.process_time() + crew.cpu_seconds()

        for disturbed in range(ATTEMPTS):
            with foreign_load(used) as load:
                seconds = crew.go()
            # A short run is only a few ticks of the system's clock.
            if self.anyway or load.cores * seconds <= max(BUSY * seconds, 3 * TICK):
                return Run(seconds, load.cores, disturbed)
            await_idle()
        raise BusyMachineError(
            f"other processes disturbed {crew.candidate.name} {ATTEMPTS} times in a row: stop "
            "them, or pass --anyway"
        )

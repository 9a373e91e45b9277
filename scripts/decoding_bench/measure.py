"""Rounds in which all candidates translate the same sentences in turn."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from benchmarking import BUSY, BusyMachineError, await_idle, foreign_load, interleave

from decoding_bench.candidates import Candidate
from decoding_bench.crews import CannotError, Crew, Job


class Result(NamedTuple):
    """What a candidate did in the rounds that count."""

    candidate: Candidate
    seconds: list[float]
    found: list[list[int]]  # the best hypothesis of each sentence, without eos
    batch_size: int | None

    @property
    def typical(self) -> float:
        """Seconds, median of the rounds."""
        return median(self.seconds)


@dataclass
class Measured:
    """All that was measured for a job."""

    job: Job
    results: dict[str, Result]
    loads: list[float]  # cores that other processes used, in the rounds that count
    void: int  # rounds that do not, because other processes were at work
    left_out: list[str] = field(default_factory=list)


@dataclass
class Protocol:
    """How it is measured.

    Attributes:
        rounds: that count.
        warmup: rounds before them.
        batch_sizes: of which an engine that has them gets its best.
        anyway: count rounds in which other processes were at work.
    """

    rounds: int = 5
    warmup: int = 2
    batch_sizes: Sequence[int] = (16, 32, 64, 128)
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
        seconds, loads, void = self._rounds(going)
        results = {
            name: Result(crew.candidate, seconds[name], crew.found(), sizes[name])
            for name, crew in going.items()
        }
        return Measured(job, results, loads, void, left_out)

    def _prepare(self, crew: Crew, job: Job, rows: Sequence[list[int]]) -> int | None:
        """Hand out the sentences. Returns: the batch size that was fastest, if it has one."""
        if not crew.candidate.has_batch_size:
            crew.prepare(job, rows, None)
            return None
        tried = {}
        for size in self.batch_sizes:
            crew.prepare(job, rows, size)
            crew.go()  # what is set up at first is not counted
            tried[size] = crew.go()
        best = min(tried, key=tried.__getitem__)
        crew.prepare(job, rows, best)
        return best

    def _rounds(self, crews: dict[str, Crew]) -> tuple[dict[str, list[float]], list[float], int]:
        """Seconds of each candidate in the rounds that count, the load of these, rounds that do
        not.
        """

        def used() -> float:
            return time.process_time() + sum(crew.cpu_seconds() for crew in crews.values())

        runs = {name: lambda _, crew=crew: crew.go() for name, crew in crews.items()}
        interleave(runs, 0, self.warmup)
        seconds: dict[str, list[float]] = {name: [] for name in crews}
        loads: list[float] = []
        void = 0
        while len(loads) < self.rounds:
            with foreign_load(used) as load:
                found = interleave(runs, 1, 0)
            if load.cores > BUSY and not self.anyway:
                void += 1
                if void > 3 * self.rounds:
                    raise BusyMachineError(
                        f"other processes disturbed {void} rounds: stop them, or pass --anyway"
                    )
                await_idle()
                continue
            loads.append(load.cores)
            for name, (spent,) in found.items():
                seconds[name].append(spent)
        return seconds, loads, void

"""The processes of a candidate, kept warm between rounds."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarking import cpu_seconds, resident

from decoding_bench.candidates import BatchSize, Candidate

SCRIPTS = Path(__file__).resolve().parents[1]


class Job(NamedTuple):
    """One regime and one search."""

    regime: str  # free: the model ends a translation; forced: all have the same length
    beams: int
    limit: int

    @property
    def title(self) -> str:
        search = "greedy" if self.beams == 1 else f"beam {self.beams}"
        lengths = "free lengths" if self.regime == "free" else f"all of {self.limit} pieces"
        return f"{search}, {lengths}"


class CannotError(Exception):
    """A candidate does not run here; the message says why."""


class Crew:
    """One candidate: one process per worker, each with its share of the sentences.

    Args:
        candidate: what runs in them.
        files: regime -> paths of the model, see `engines.Files`.

    Raises: CannotError if the engine is not installed, or cannot compute the model.
    """

    def __init__(self, candidate: Candidate, files: Mapping[str, Sequence[str]]):
        self.candidate = candidate
        self.shares: list[list[int]] = []
        threads = str(candidate.threads)
        path = os.pathsep.join([str(SCRIPTS), str(SCRIPTS.parent)])
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONPATH": path}
        command = [sys.executable, "-m", "decoding_bench.worker", candidate.name]
        self.processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
                encoding="utf-8",
            )
            for _ in range(candidate.processes)
        ]
        try:
            self._ask([{"do": "load", "files": {r: list(f) for r, f in files.items()}}])
        except CannotError:
            self.close()
            raise

    def prepare(self, job: Job, rows: Sequence[list[int]], batch_size: BatchSize | None) -> None:
        """Give each process its share of sentences of all lengths."""
        self.count = len(rows)
        self.shares = deal([len(row) for row in rows], len(self.processes))
        works = [
            [job.regime, [rows[i] for i in share], job.beams, job.limit, batch_size]
            for share in self.shares
        ]
        self._ask([{"do": "prepare", "work": work} for work in works])

    def go(self) -> float:
        """All processes translate their share. Returns: seconds until the last has finished."""
        start = time.perf_counter()
        self._ask([{"do": "go"}])
        return time.perf_counter() - start

    def hypotheses(self) -> list[list[int]]:
        """The hypotheses of the last run, in the order of the sentences."""
        results: list[list[int]] = [[] for _ in range(self.count)]
        for share, answer in zip(self.shares, self._ask([{"do": "hypotheses"}]), strict=True):
            for i, row in zip(share, answer["hypotheses"], strict=True):
                results[i] = row
        return results

    def cpu_seconds(self) -> float:
        """CPU seconds of its processes so far (Linux; elsewhere 0)."""
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def resident(self) -> int:
        """Resident bytes of its processes in total (Linux; elsewhere 0)."""
        return sum(resident(process.pid) for process in self.processes)

    def close(self) -> None:
        for process in self.processes:
            assert process.stdin and process.stdout
            process.stdin.close()
            process.wait()
            process.stdout.close()

    def _ask(self, orders: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send each process its order, or all the same one, then read their answers."""
        each = list(orders) * (len(self.processes) if len(orders) == 1 else 1)
        for process, order in zip(self.processes, each, strict=True):
            assert process.stdin
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        answers = []
        for process in self.processes:
            assert process.stdout
            line = process.stdout.readline()
            answers.append(json.loads(line) if line else {"error": "it died; see what it printed"})
        for answer in answers:
            if "error" in answer:
                raise CannotError(answer["error"])
        return answers


def deal(lengths: Sequence[int], hands: int) -> list[list[int]]:
    """Indices in `hands` shares with the same distribution of lengths."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[hand::hands] for hand in range(hands)]

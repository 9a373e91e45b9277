"""Run a cell: its commands, and the line of JSON that they amount to."""

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarking import processor
from comparison.runs import metric_lines, read_run

from seq2seq.base.errors import Seq2SeqError
from seq2seq.metrics.registry import count_edits
from study.cells import RUNS, Cell

ROOT = Path(__file__).resolve().parents[2]
Line = dict[str, Any]  # a line of the table's data


def run_cell(cell: Cell, runs: Path, extra: Sequence[str] = ()) -> Line:
    """Train and test.

    Args:
        extra: more options of train.py, of a trial; they are part of the recorded command.

    Raises: Seq2SeqError if a command fails, with the end of what it printed.
    """
    task, folder = cell.task, cell.folder(runs)
    if not task.file("train", 0).is_file():
        raise Seq2SeqError(f"there is no {task.file('train', 0)}. To write it: {task.data}")
    resumed = (folder / "last.ckpt").is_file()
    training = run_command([str(ROOT / "train.py"), *cell.training(runs), *extra])
    tests = [run_test(cell, runs, part) for part in (task.within, task.beyond)]
    run = read_run(folder)
    return {
        "task": task.name,
        "row": cell.row.name,
        "seed": cell.seed,
        "updates": run.steps,
        "attention": run.roles,
        "position": cell.row.position,
        "parameters": sum(p.numel() for p in run.saved.build().parameters()),
        **scores_of(tests),
        "cpu_seconds": None if resumed else round(training, 1),
        "test_cpu_seconds": round(sum(test.seconds for test in tests), 1),
        "tokens_per_second": tokens_per_second(folder),
        **conditions_of(folder),
        "commands": cell.commands(RUNS, extra),
    }


class Tested(NamedTuple):
    """Outputs and references, and the CPU seconds of `seq2seq evaluate`."""

    pairs: list[tuple[str, str]]
    seconds: float


def run_test(cell: Cell, runs: Path, part: str) -> Tested:
    seconds = run_command(["-m", "seq2seq", *cell.test(runs, part)])
    outputs = cell.output(runs, part).read_text(encoding="utf-8").splitlines()
    references = cell.task.file(part, 1).read_text(encoding="utf-8").splitlines()
    return Tested(list(zip(outputs, references, strict=True)), seconds)


def scores_of(tests: Sequence[Tested]) -> Line:
    """Of the tests within and beyond the lengths of training, and of each length of both."""
    within, beyond = (score(test.pairs) for test in tests)
    return {
        **{name: {"within": within[name], "beyond": beyond[name]} for name in within},
        "by_length": by_length(pair for test in tests for pair in test.pairs),
    }


def run_command(typed: Sequence[str]) -> float:
    """Its CPU seconds, of all processes; one thread, so that it repeats to the bit."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    before = children_seconds()
    done = subprocess.run(
        [sys.executable, *typed], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise Seq2SeqError(f"python {' '.join(typed)} ended with {done.returncode}: {said}")
    return children_seconds() - before


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def score(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Percent: outputs that equal their reference; symbols right, 100 - error rate, at least 0.

    Args:
        pairs: output and reference.
    """
    exact = sum(output.split() == reference.split() for output, reference in pairs)
    edits = sum(count_edits(output, reference) for output, reference in pairs)
    symbols = sum(len(reference.split()) for _, reference in pairs)
    right = max(0.0, 100 - 100 * edits / symbols)
    return {"exact": round(100 * exact / len(pairs), 2), "symbols": round(right, 2)}


def by_length(pairs: Iterable[tuple[str, str]]) -> list[Line]:
    """The scores of each length of the reference, ascending."""
    groups: dict[int, list[tuple[str, str]]] = {}
    for pair in pairs:
        groups.setdefault(len(pair[1].split()), []).append(pair)
    return [
        {"length": length, "pairs": len(groups[length]), **score(groups[length])}
        for length in sorted(groups)
    ]


def tokens_per_second(folder: Path) -> int | None:
    """The median over the lines of a training, by the clock; None if there are none."""
    column = [row.get("train/tokens_per_second") for row in metric_lines(folder)]
    speeds = [float(each) for each in column if each]
    return round(statistics.median(speeds)) if speeds else None


def conditions_of(folder: Path) -> Line:
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {"threads": result["threads"], "torch": result["torch"], "processor": processor()}

"""Cells of the study: a row on a task, as the commands that anybody can type."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from zoo import preset_names

PLAIN = "mha"
SEED = 1
RUNS = Path("runs/zoo")  # where its commands put a run


class Task(NamedTuple):
    """An experiment of conf/, and what its models are tested on."""

    name: str  # of the experiment, and the folder of data/ if no other is given
    within: str  # the part of the folder with the lengths, or commands, of training
    beyond: str  # that with longer ones, or new combinations
    suffixes: tuple[str, str]
    buckets: tuple[range, ...]  # symbols of the reference
    data: str  # the command that writes the folder
    overrides: tuple[str, ...] = ()
    folder: str = ""

    def file(self, part: str, side: int) -> Path:
        return Path("data", self.folder or self.name, f"{part}.{self.suffixes[side]}")


LETTERS = ("source", "target")
ACTIONS = ("command", "action")
BY_LENGTH = (range(1, 11), range(11, 21), range(21, 26), range(26, 31), range(31, 41))
STRINGS = "python scripts/zoo_study.py --data"
# Of SCAN's models, with which a cell takes a few minutes.
SMALL = ("model.dim=64", "model.ffn_dim=256", "data.max_tokens=2048", "trainer.max_steps=1500")


def scan_length(folder: str) -> tuple[str, ...]:
    """Overrides: the model is that of `scan`; the recipe `scan_length` is made for one scheme."""
    files = (f"data.{part}=data/{folder}/{part}" for part in ("train", "valid", "test"))
    end = "trainer.val_check_interval=${trainer.max_steps}"
    return ("experiment=scan", *files, "decode.length_ratio=6", *SMALL, end)


TASKS = {
    task.name: task
    for task in (
        Task("copy", "test", "beyond", LETTERS, BY_LENGTH, STRINGS),
        Task("reverse", "test", "beyond", LETTERS, BY_LENGTH, STRINGS),
        Task(
            "scan_length_26", "valid", "test", ACTIONS,
            (range(1, 27), range(27, 31), range(31, 37), range(37, 49)),
            "python scripts/make_scan.py --split length --cut-off 26",
            scan_length("scan_length_26"),
        ),
        Task(
            "scan_length", "valid", "test", ACTIONS,
            (range(1, 23), range(23, 27), range(27, 31), range(31, 37), range(37, 49)),
            "python scripts/make_scan.py --split length",
            scan_length("scan_length"),
        ),
        Task(
            "scan_jump", "valid", "test", ACTIONS, (range(1, 25), range(25, 49)),
            "python scripts/make_scan.py --split jump",
            ("experiment=scan_jump", *SMALL),
        ),
    )
}  # fmt: skip


class Row(NamedTuple):
    """A preset of conf/attn and a scheme of conf/position.

    `classes`, of t5, replaces both the number of classes of distances and the largest distance.
    """

    preset: str
    position: str = "sinusoidal"
    classes: int | None = None

    @property
    def name(self) -> str:
        name = self.preset if self.position == "sinusoidal" else f"{self.preset}+{self.position}"
        return name if self.classes is None else f"{name}-{self.classes}"

    @property
    def options(self) -> list[str]:
        """Arguments of train.py."""
        names = () if self.classes is None else ("max_distance", "num_buckets")
        chosen = [f"position.{name}={self.classes}" for name in names]
        return [f"attn={self.preset}", f"position={self.position}", *chosen]


# Besides the default, sinusoidal.
SCHEMES = ("learned", "none", "rope", "alibi", "t5", "transformer_xl")
ON_SCAN = (
    *(Row(PLAIN, scheme) for scheme in ("sinusoidal", *SCHEMES)),
    Row(PLAIN, "t5", 24),  # longer distances than any in training are then of one class
    Row("ssru"),  # its order is in its steps, so no bias can be added
)


def rows_of(task: str) -> list[Row]:
    """Every preset with the default positions and `mha` with all others; on SCAN only nine."""
    if task.startswith("scan"):
        return list(ON_SCAN)
    others = [Row(name) for name in preset_names() if name != PLAIN]
    return [Row(PLAIN), *(Row(PLAIN, scheme) for scheme in SCHEMES), *others]


class Cell(NamedTuple):
    """A row on a task, with a seed."""

    task: Task
    row: Row
    seed: int = SEED

    @property
    def key(self) -> tuple[str, str, int]:
        return self.task.name, self.row.name, self.seed

    def folder(self, runs: Path) -> Path:
        return runs / self.task.name / f"{self.row.name}-seed{self.seed}"

    def training(self, runs: Path) -> list[str]:
        """Arguments after `train.py`. The precision is named, to be the same on any machine."""
        experiment = () if self.task.overrides else (f"experiment={self.task.name}",)
        return [
            *experiment, *self.task.overrides, *self.row.options, f"seed={self.seed}",
            "trainer.precision=32-true", "resume=auto", f"hydra.run.dir={self.folder(runs)}",
        ]  # fmt: skip

    def test(self, runs: Path, part: str) -> list[str]:
        """Arguments after `seq2seq`."""
        folder = self.folder(runs)
        files = [str(self.task.file(part, side)) for side in (0, 1)]
        return [
            "evaluate", str(folder), *files, "--device", "cpu", "--workers", "1", "--beam-size",
            "1", "--metrics", "exact,ser", "--resamples", "0", "--json", "-o",
            str(self.output(runs, part)),
        ]  # fmt: skip

    def output(self, runs: Path, part: str) -> Path:
        return self.folder(runs) / f"{part}.output"

    def commands(self, runs: Path, extra: Sequence[str] = ()) -> list[str]:
        """As typed in a shell, in the root of a checkout; `extra` as in `run_cell`."""
        tests = [self.test(runs, part) for part in (self.task.within, self.task.beyond)]
        return [
            f"OMP_NUM_THREADS=1 {shlex.join(['python', 'train.py', *self.training(runs), *extra])}",
            *(f"OMP_NUM_THREADS=1 {shlex.join(['seq2seq', *typed])}" for typed in tests),
        ]


def select_cells(tasks: Sequence[str], rows: Sequence[str], seed: int) -> Iterator[Cell]:
    """The cells of these tasks, row by row; of these rows only, if any is named.

    Raises: SystemExit for a task or a row that does not exist.
    """
    if unknown := sorted(set(tasks) - set(TASKS)):
        raise SystemExit(f"unknown task {unknown[0]!r}. Known: {', '.join(TASKS)}")
    known = {row.name for task in tasks for row in rows_of(task)}
    if unknown := sorted(set(rows) - known):
        raise SystemExit(f"unknown row {unknown[0]!r}. Known: {', '.join(sorted(known))}")
    wanted = dict.fromkeys(row for task in tasks for row in rows_of(task))
    for row in wanted:
        for task in tasks:
            if row in rows_of(task) and (not rows or row.name in rows):
                yield Cell(TASKS[task], row, seed)

"""Read the runs of a sweep, group them by mechanism, and list their other differences."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from seq2seq import checkpoint
from seq2seq.attention import ATTENTION, Role
from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.checkpoint.differences import list_differences
from seq2seq.pages.charts import read_csv, read_rows
from seq2seq.training.run_folder import RECORD
from seq2seq.training.sweep import ERROR, RESULT

# Options that do not make a different mechanism.
NO_DIFFERENCE = ("seed=", "run_name=", "hydra.")
LIKE = ("data", "order", "update", "model", "position", "decode")  # nodes that should not differ
JUDGING = ("validation.sentences", "checkpoint.monitor")
IN_ROLE = "with "  # in the name of a group with another mechanism in one role
MAY_DIFFER = ("order.seed", "data.cache")

Rows = Sequence[Mapping[str, str]]  # lines of metrics.csv


class TrainedRun(NamedTuple):
    """A finished run."""

    folder: Path
    preset: str | None  # name of the preset in conf/attn; None if it was not recorded
    typed: list[str]  # other options on the command line
    saved: checkpoint.Saved
    steps: int
    monitor: str  # metric that chose best.ckpt
    best: Mapping[str, str]  # line of metrics.csv of the validation that chose it
    validations: Rows  # of all validations

    @property
    def metric(self) -> str:
        """The metric that is shown: the one that chose best.ckpt, or BLEU if that is the loss."""
        return "bleu" if self.monitor == "loss" else self.monitor

    @property
    def score(self) -> float:
        return float(self.best[f"valid/{self.metric}"])

    @property
    def seconds(self) -> float:
        """The seconds of training."""
        return float(self.validations[-1]["seconds"])

    @property
    def is_rising(self) -> bool:
        """True if more is better in the metric that chose best.ckpt."""
        values = [float(row[f"valid/{self.monitor}"]) for row in self.validations]
        return float(self.best[f"valid/{self.monitor}"]) >= max(values)

    def score_within(self, seconds: float) -> float | None:
        """The score of the weights that were best after so many seconds; None if there are none."""
        column = f"valid/{self.monitor}"
        rows = [row for row in self.validations if float(row["seconds"]) <= seconds]
        if not rows:
            return None
        best = (max if self.is_rising else min)(rows, key=lambda row: float(row[column]))
        return float(best[f"valid/{self.metric}"])

    @property
    def roles(self) -> str:
        """The attention of each role: `encoder mha, decoder mha, cross fixed`; only one name if all
        are the same.
        """
        attention = self.saved.config["attention"].items()  # in the order of `Role`
        labels = {role: ATTENTION.find(each["name"]).label(each) for role, each in attention}
        if len(set(labels.values())) == 1:
            return next(iter(labels.values()))
        return ", ".join(f"{role} {label}" for role, label in labels.items())


class Group(NamedTuple):
    """Runs of one mechanism that differ only in their seeds."""

    name: str
    runs: list[TrainedRun]


def read_runs(folders: Iterable[Path]) -> tuple[list[TrainedRun], list[str]]:
    """The finished runs in some sweeps, and a message for each unfinished one.

    Raises: ConfigError if a folder holds no finished run; the message says what to type.
    """
    runs: list[TrainedRun] = []
    skipped: list[str] = []
    for folder in folders:
        before = len(runs)
        for candidate in run_folders(folder):
            missing = [name for name in (RESULT, "best.ckpt") if not (candidate / name).is_file()]
            if missing:
                skipped.append(
                    f"{candidate} is left out: it has no {missing[0]}, so it is not finished"
                )
            else:
                runs.append(read_run(candidate))
        if len(runs) == before:
            raise ConfigError(
                "\n".join(skipped)
                + f"\n{folder} holds no finished run. To train some: "
                f"{training_command()} -m attn=mha,gqa hydra.sweep.dir={folder}".lstrip("\n")
            )
    return runs, skipped


def run_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a run, otherwise the runs in it, in the order of the sweep."""
    if not folder.is_dir():
        raise ConfigError(
            f"there is no {folder}: give two files of text, or a folder of runs, runs/sweeps/..."
        )
    if is_run(folder):
        return [folder]
    folders = [path for path in folder.iterdir() if path.is_dir() and is_run(path)]
    return sorted(folders, key=lambda path: (job_index(path), path.name))


def is_run(folder: Path) -> bool:
    return any(
        (folder / name).exists() for name in (RECORD, RESULT, ERROR, "metrics.csv", "last.ckpt")
    )


def job_index(folder: Path) -> int:
    prefix = folder.name.partition("-")[0]
    return int(prefix) if prefix.isdigit() else 0


def read_run(folder: Path) -> TrainedRun:
    result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    preset, typed = read_command_line(folder)
    rows = validations(folder, result["monitor"])
    if not rows or result["value"] is None:
        raise DataError(f"{folder} has no validation in metrics.csv: train it without logger=none")
    return TrainedRun(
        folder=folder,
        preset=preset,
        typed=typed,
        saved=checkpoint.read(folder / "best.ckpt"),
        steps=result["steps"],
        monitor=result["monitor"],
        best=best_validation(rows, result),
        validations=rows,
    )


def best_validation(rows: Rows, result: Mapping[str, Any]) -> Mapping[str, str]:
    """The line of metrics.csv for the validation that wrote best.ckpt.

    It is the first line with the best value, which the run's result contains. For a metric computed
    by a user's command, only the run knew whether the best value is the largest or the smallest.
    """
    column = f"valid/{result['monitor']}"
    return min(rows, key=lambda row: abs(float(row[column]) - result["value"]))


def validations(folder: Path, metric: str) -> Rows:
    """The lines of a run's metrics that belong to a validation with this metric, including those
    from before the run was resumed.
    """
    rows = read_rows(folder) if (folder / "metrics.csv").is_file() else []
    # If the run was killed after its last update, the part that resumed it wrote no lines.
    rows = rows or [row for file in sorted(folder.glob("metrics-*.csv")) for row in read_csv(file)]
    return [row for row in rows if row.get("valid/loss") and row.get(f"valid/{metric}")]


def read_command_line(folder: Path) -> tuple[str | None, list[str]]:
    """The command line that Hydra recorded: the preset of attn, and all other options."""
    record = folder / ".hydra"
    if not (record / "hydra.yaml").is_file():
        return None, []
    chosen: Any = OmegaConf.load(record / "hydra.yaml")
    typed: Any = OmegaConf.to_container(OmegaConf.load(record / "overrides.yaml"))
    return chosen.hydra.runtime.choices.attn, [t for t in typed if not t.startswith("attn=")]


def group_runs(runs: Sequence[TrainedRun], tuned: Sequence[str] = ()) -> list[Group]:
    """Group runs by mechanism. Groups are named after the options that not all runs share.

    Args:
        tuned: options that were chosen for each mechanism, such as `optimizer.lr=`.
    """
    shared = set(runs[0].typed).intersection(*(run.typed for run in runs))
    ignored = (*NO_DIFFERENCE, *tuned)
    groups: dict[str, Group] = {}
    for run in runs:
        particular = [t for t in run.typed if t not in shared and not t.startswith(ignored)]
        name = " ".join([run.preset or run.roles, *map(name_role, particular)])
        groups.setdefault(name, Group(name, [])).runs.append(run)
    return list(groups.values())


def name_role(option: str) -> str:
    """An option as part of a name: `with additive in cross-attention`, or as typed."""
    found = re.fullmatch(r"attn@(\w+)_attn=(\w+)", option)
    return f"{IN_ROLE}{found[2]} in {Role(found[1]).description}" if found else option


def in_order(groups: Sequence[Group], reference: str) -> list[Group]:
    """The groups in the order of the table: first the reference, then the others by their
    validation scores, best first.

    Args:
        reference: name of the reference group, or of its preset.
    """
    run = groups[0].runs[0]
    # BLEU, which is shown in place of the loss, rises.
    sign = -1 if run.metric != run.monitor or run.is_rising else 1
    ranked = sorted(groups, key=lambda g: sign * sum(run.score for run in g.runs) / len(g.runs))
    named = [g for g in ranked if g.name == reference]
    whole = [g for g in ranked if IN_ROLE not in g.name]  # with one mechanism in all roles
    first = named or [g for g in groups if g.runs[0].preset == reference] or whole
    return [*first[:1], *(g for g in ranked if g not in first[:1])]


def list_differing_options(runs: Sequence[TrainedRun], tuned: Sequence[str] = ()) -> list[str]:
    """One message for each difference between the runs other than attention, seed, and the nodes
    of the options that were chosen for each mechanism.
    """
    first = runs[0]
    unlike: dict[str, tuple[Any, Any, TrainedRun]] = {}
    for run in runs[1:]:
        for node in LIKE:
            pair = first.saved.config.get(node, {}), run.saved.config.get(node, {})
            for difference in list_differences(*pair, node):
                if difference.name not in (*MAY_DIFFER, *tuned):
                    unlike.setdefault(difference.name, (difference.one, difference.other, run))
        if run.steps != first.steps:
            unlike.setdefault("steps", (first.steps, run.steps, run))
        if run.saved.target.to_json() != first.saved.target.to_json():
            unlike.setdefault("the target's tokenizer", ("one", "another", run))
        typed = [dict(text.partition("=")[::2] for text in each.typed) for each in (first, run)]
        for name in JUDGING:  # checkpoints do not store these
            one, other = (options.get(name, "its default") for options in typed)
            if one != other:
                unlike.setdefault(name, (one, other, run))
    return [
        f"not comparable: {name} is {one} in {first.folder}, {other} in {run.folder}"
        for name, (one, other, run) in unlike.items()
    ]

"""Record the result of a recipe: write docs/results/NAME.md and its learning curves.

    python train.py experiment=multi30k_en_de hydra.run.dir=runs/recipes/multi30k_en_de
    seq2seq average runs/recipes/multi30k_en_de --last 10
    python scripts/record_result.py runs/recipes/multi30k_en_de --average 10 --test TEST.en TEST.de

The page is named after the experiment, or --name. It contains the commands, the conditions, the
scores with signatures and intervals, and the SHA-256 of the translations, but no line of the
corpus. The same commands on the same machine should give the same page.
"""

import argparse
import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from curves import draw_curves
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from seq2seq import checkpoint
from seq2seq.base.errors import Seq2SeqError, fail
from seq2seq.checkpoint.differences import list_differences
from seq2seq.comparison.conditions import processor
from seq2seq.pages.charts import read_rows

ROOT = Path(__file__).resolve().parent.parent
CONF, RESULTS = ROOT / "conf", ROOT / "docs" / "results"
# An absolute path, as a value or inside a list or mapping, but not the slash inside a/b.
PATH = re.compile(r"(?<![^=\[,: ])/[^],} ]+")
# Options that have no effect except through other options that refer to them.
REFERRED = (".data.steps", ".data.vocab_size")
# Entries of result.json that a page needs; older versions did not write all of them.
NEEDED = ("seconds", "device", "devices", "threads", "torch")


class Evaluated(NamedTuple):
    """An evaluated test set: the command, and the output of `seq2seq evaluate --json`."""

    command: str
    result: dict[str, Any]


def evaluate(run: Path, model: Path, test: Sequence[Path], options: Sequence[str]) -> Evaluated:
    typed = ["seq2seq", "evaluate", str(model), *map(str, test), *options]
    done = subprocess.run(
        [sys.executable, "-m", *typed, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Seq2SeqError(f"{' '.join(typed)} ended with {done.returncode}: {done.stderr.strip()}")
    # The page names the uncompressed files, even if they are compressed here.
    files = [shorten_path(path, run).removesuffix(".gz") for path in test]
    shown = ["seq2seq", "evaluate", str(model), *files, *options]
    return Evaluated(shlex.join(shown), json.loads(done.stdout))


def overrides(run: Path) -> list[str]:
    """The arguments of train.py that the run recorded."""
    return [str(each) for each in OmegaConf.load(run / ".hydra" / "overrides.yaml")]


def experiment_of(run: Path) -> str:
    """The name of a run's recipe.

    Raises: Seq2SeqError if the run is unfinished, or used no recipe.
    """
    for needed in (".hydra/overrides.yaml", "metrics.csv", "data.json", "result.json"):
        if not (run / needed).is_file():
            raise Seq2SeqError(f"there is no {run / needed}: give the folder of a finished run")
    words = (each.partition("=") for each in overrides(run))
    typed = [value for key, _, value in words if key == "experiment"]
    if not typed or not recipe(typed[0]).is_file():
        raise Seq2SeqError(
            f"{run} was not trained by a recipe of {CONF}: python train.py experiment=NAME"
        )
    return typed[0]


def recipe(name: str) -> Path:
    return CONF / "experiment" / f"{name}.yaml"


def training_command(run: Path) -> str:
    """The command that repeats a run, with FOLDER for folders of this machine, without `resume`."""
    typed = [each for each in overrides(run) if not each.startswith("resume=")]
    words = [PATH.sub(lambda path: shorten_path(Path(path[0]), run), word) for word in typed]
    result = result_of(run)
    alone = f"OMP_NUM_THREADS={result['threads']} " if result["device"] == "cpu" else ""
    return alone + shlex.join(["python", "train.py", *words, f"hydra.run.dir={run}"])


def shorten_path(path: Path, run: Path) -> str:
    """A path in which FOLDER replaces the common folder of the run's inputs; if it is not there,
    its parent.
    """
    if not path.is_absolute():
        return str(path)
    typed = {each for word in overrides(run) for each in PATH.findall(word)}
    folder = Path(os.path.commonpath(typed)) if typed else path.parent
    if len(typed) == 1 and not folder.is_dir():
        folder = folder.parent
    return str("FOLDER" / path.relative_to(folder if path.is_relative_to(folder) else path.parent))


def list_changes(run: Path) -> list[str]:
    """The options for which the same command would now give another value than in the run."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        configs = OmegaConf.load(run / ".hydra" / "config.yaml"), compose("train", overrides(run))
    then, now = (_resolve(config) for config in configs)
    # An option that the run lacks is new, and had its default value.
    return [
        f"`{name[1:]}` was {one}, and is {other}"
        for name, one, other in list_differences(then, now, "")
        if one is not None and name not in REFERRED
    ]


def _resolve(config: Any) -> Any:
    config.run_name = "any"  # the default can only be resolved within a run
    return OmegaConf.to_container(config, resolve=True)


def result_of(run: Path) -> dict[str, Any]:
    """The result that a run recorded.

    Raises: Seq2SeqError if an older version wrote it without time and machine.
    """
    path = run / "result.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if missing := [name for name in NEEDED if name not in result]:
        raise Seq2SeqError(f"{path} of an older version lacks {', '.join(missing)}: train again")
    return result


def machine(run: Path) -> str:
    result = result_of(run)
    device = result["device"]
    name = processor() if device == "cpu" else f"{result['devices']} x {device}"
    return f"{name}, {result['threads']} thread(s), torch {result['torch']}"


def minutes(run: Path) -> str:
    resumed = any(each.startswith("resume=") for each in overrides(run))
    parts = ", all parts together" if resumed else ""
    return f"{result_of(run)['seconds'] / 60:.0f} minutes{parts}"


def write_rows(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def page(
    name: str, run: Path, model: Path, tests: Sequence[Evaluated], options: argparse.Namespace
) -> str:
    saved = checkpoint.read(model)
    parameters = sum(p.numel() for p in saved.build().parameters())
    result = result_of(run)
    about = recipe(options.experiment).read_text(encoding="utf-8").splitlines()[1]
    best = "none" if result["value"] is None else f"{result['value']:.2f}"
    commands = [training_command(run)]
    if options.average:
        commands.append(f"seq2seq average {run} --last {options.average}")
    commands += [test.command for test in tests]
    lines = [
        f"# {name}",
        "",
        about.removeprefix("# ").partition(" Result:")[0],
        "",
        "```bash",
        *commands,
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {parameters:,} |",
        f"| updates | {result['steps']:,} |",
        f"| seed | {saved.config['order']['seed']} |",
        f"| precision | {saved.config['update']['precision']} |",
        f"| training time, including validations | {minutes(run)} |",
        f"| machine | {machine(run)} |",
        *([f"| conditions | {options.beside} |"] if options.beside else []),
        *(f"| changed since | {each} |" for each in list_changes(run)),
        f"| best validation, {result['monitor']} | {best} |",
        "",
        *scores(tests),
        "",
        f"![learning curves]({name}.png)",
        "",
        f"The curves are drawn from [{name}.csv]({name}.csv), the metrics.csv of the run.",
    ]
    return "\n".join(lines) + "\n"


def scores(tests: Sequence[Evaluated]) -> list[str]:
    lines = ["| test set | score | 95% interval | signature |", "|---|---|---|---|"]
    for index, (_, result) in enumerate(tests):
        for name, value in result.items():
            if isinstance(value, dict) and "signature" in value:
                interval = value["interval"]
                around = f"± {interval['half_width']:.1f}" if interval else ""
                signature = value["signature"].replace("|", "\\|")
                lines.append(
                    f"| {index + 1} | {name} **{value['score']:.1f}** | {around} | `{signature}` |"
                )
    lines.append("")
    for index, (_, result) in enumerate(tests):
        lines.append(
            f"Test set {index + 1}: {result['sentences']:,} sentences; sha256 of the translations "
            f"`{result['sha256']}`."
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", help="name of the page; default: the experiment")
    parser.add_argument("--test", type=Path, nargs=2, action="append", required=True)
    parser.add_argument(
        "--average", type=int, help="use RUN/average.ckpt, the mean of this many last checkpoints"
    )
    parser.add_argument("--beside", help="other load on the machine during training")
    parser.add_argument("--metrics", help="as in seq2seq evaluate")
    options = parser.parse_args(arguments)
    options.experiment = experiment_of(options.run)
    name = options.name or options.experiment
    model = options.run / ("average.ckpt" if options.average else "best.ckpt")
    extra = ["--metrics", options.metrics] if options.metrics else []
    tests = [evaluate(options.run, model, test, extra) for test in options.test]
    RESULTS.mkdir(exist_ok=True)
    text = page(name, options.run, model, tests, options)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    rows = read_rows(options.run)
    write_rows(rows, RESULTS / f"{name}.csv")
    draw_curves(rows, RESULTS / f"{name}.png")
    print(f"wrote {RESULTS / name}.md")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))

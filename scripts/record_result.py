"""Write down what a recipe came to: docs/results/NAME.md, its curves, and what they are drawn from.

    python train.py experiment=multi30k_en_de hydra.run.dir=runs/recipes/multi30k_en_de
    seq2seq average runs/recipes/multi30k_en_de --last 10
    python scripts/record_result.py runs/recipes/multi30k_en_de --average 10 --test TEST.en TEST.de

The page is named after the experiment, or --name. It holds the commands, the conditions, the scores
with signatures and intervals, and the SHA-256 of the translations; no line of the corpus. Whoever
types its commands again, on the same machine, should get the same page.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarking import processor
from curves import draw_curves, read_curves
from omegaconf import OmegaConf

from seq2seq import checkpoint
from seq2seq.errors import Seq2SeqError, fail

ROOT = Path(__file__).resolve().parent.parent
CONF, RESULTS = ROOT / "conf" / "experiment", ROOT / "docs" / "results"


class Evaluated(NamedTuple):
    """A test set, how it was scored, and what `seq2seq evaluate --json` found."""

    command: str
    found: dict[str, Any]


def evaluate(model: Path, test: Sequence[Path], options: Sequence[str]) -> Evaluated:
    typed = ["seq2seq", "evaluate", str(model), *map(str, test), *options]
    done = subprocess.run(
        [sys.executable, "-m", *typed, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Seq2SeqError(f"{' '.join(typed)} ended with {done.returncode}: {done.stderr.strip()}")
    names = [str(model), *(path.name for path in test)]
    return Evaluated(" ".join(["seq2seq evaluate", *names, *options]), json.loads(done.stdout))


def overrides(run: Path) -> list[str]:
    """What was typed behind train.py, as the run itself recorded it."""
    return [str(each) for each in OmegaConf.load(run / ".hydra" / "overrides.yaml")]


def training_command(run: Path, threads: int | None) -> str:
    """What was typed, with FOLDER for the folders of this machine."""
    words = []
    for override in overrides(run):
        key, _, value = override.partition("=")
        words.append(f"{key}=FOLDER/{Path(value).name}" if value.startswith("/") else override)
    alone = f"OMP_NUM_THREADS={threads} " if threads else ""
    return f"{alone}python train.py {' '.join(words)} hydra.run.dir={run}"


def fit_seconds(run: Path) -> float:
    """Wall time of the fit: one file is written just before it, the other just after."""
    return (run / "result.json").stat().st_mtime - (run / "data.json").stat().st_mtime


def page(
    name: str, run: Path, model: Path, tests: Sequence[Evaluated], options: argparse.Namespace
) -> str:
    saved = checkpoint.read(model)
    parameters = sum(p.numel() for p in saved.build().parameters())
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    about = (CONF / f"{options.experiment}.yaml").read_text(encoding="utf-8").splitlines()[1]
    commands = [training_command(run, options.threads)]
    if options.average:
        commands.append(f"seq2seq average {run} --last {options.average}")
    commands += [test.command for test in tests]
    seconds = fit_seconds(run)
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
        f"| wall time of the fit, validations included | {seconds / 60:.0f} minutes |",
        f"| machine | {processor()}, {options.threads or 'all'} thread(s), torch "
        f"{torch.__version__} |",
        *([f"| beside it | {options.beside} |"] if options.beside else []),
        f"| best validation, {result['monitor']} | {result['value']:.2f} |",
        "",
        *scores(tests),
        "",
        f"![learning curves]({name}.png)",
        "",
        f"Drawn from [{name}.csv]({name}.csv), the metrics.csv of the run.",
    ]
    return "\n".join(lines) + "\n"


def scores(tests: Sequence[Evaluated]) -> list[str]:
    lines = ["| test set | score | 95% interval | signature |", "|---|---|---|---|"]
    for number, (_, found) in enumerate(tests):
        for name, value in found.items():
            if isinstance(value, dict) and "signature" in value:
                interval = value["interval"]
                around = f"± {interval['half_width']:.1f}" if interval else ""
                signature = value["signature"].replace("|", "\\|")
                lines.append(
                    f"| {number + 1} | {name} **{value['score']:.1f}** | {around} | `{signature}` |"
                )
    lines.append("")
    for number, (_, found) in enumerate(tests):
        lines.append(
            f"Test set {number + 1}: {found['sentences']:,} sentences; sha256 of the translations "
            f"`{found['sha256']}`."
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", help="of the page; default: the experiment")
    parser.add_argument("--test", type=Path, nargs=2, action="append", required=True)
    parser.add_argument("--average", type=int, help="RUN/average.ckpt of so many last checkpoints")
    parser.add_argument("--threads", type=int, help="OMP_NUM_THREADS of the training")
    parser.add_argument("--beside", help="what else the machine did meanwhile")
    parser.add_argument("--metrics", help="as of seq2seq evaluate")
    options = parser.parse_args(arguments)
    options.experiment = dict(each.split("=", 1) for each in overrides(options.run))["experiment"]
    name = options.name or options.experiment
    model = options.run / ("average.ckpt" if options.average else "best.ckpt")
    extra = ["--metrics", options.metrics] if options.metrics else []
    tests = [evaluate(model, test, extra) for test in options.test]
    RESULTS.mkdir(exist_ok=True)
    text = page(name, options.run, model, tests, options)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    shutil.copy(options.run / "metrics.csv", RESULTS / f"{name}.csv")
    draw_curves(read_curves(options.run / "metrics.csv"), RESULTS / f"{name}.png")
    print(f"wrote {RESULTS / name}.md")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))

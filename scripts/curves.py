"""The curves of a run, from its metrics.csv."""

import csv
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seq2seq.evaluation.plots import INK, METADATA, QUIET, RULE

Curve = list[tuple[int, float]]  # update, value
TRAIN, VALID = QUIET, "#376cb4"


def read_curves(path: Path) -> dict[str, Curve]:
    """Each column of metrics.csv as updates and values; a row has some of the columns."""
    curves: dict[str, Curve] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if name not in ("epoch", "step") and value:
                    curves.setdefault(name, []).append((int(row["step"]) + 1, float(value)))
    return curves


def draw_curves(curves: Mapping[str, Curve], path: Path) -> None:
    """Loss of training and validation at the left, BLEU of validation at the right."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _panel(left, "loss a piece")
    for name, colour, width in (("train/loss", TRAIN, 0.8), ("valid/loss", VALID, 1.6)):
        if name in curves:
            left.plot(*zip(*curves[name], strict=True), color=colour, linewidth=width)
            left.annotate(
                name.partition("/")[0],
                curves[name][-1],
                xytext=(4, 0),
                textcoords="offset points",
                color=colour,
                fontsize=8,
                va="center",
            )
    _panel(right, "BLEU, validation, greedy")
    if "valid/bleu" in curves:
        right.plot(*zip(*curves["valid/bleu"], strict=True), color=VALID, linewidth=1.6)
    figure.savefig(path, dpi=110, metadata=METADATA.get("png"))


def _panel(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.set_xlabel("updates", fontsize=8, color=QUIET)
    axes.tick_params(labelsize=8, colors=QUIET, length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.margins(x=0.08)

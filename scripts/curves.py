"""Draw the learning curves of a run as a picture for a Markdown page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seq2seq.pages.charts import column_points
from seq2seq.pages.plots import INK, METADATA, QUIET, RULE

TRAIN, VALID = QUIET, "#376cb4"


def draw_curves(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Draw training and validation loss on the left, validation BLEU on the right."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _panel(left, "loss per piece")
    for name, colour, width in (("train/loss", TRAIN, 0.8), ("valid/loss", VALID, 1.6)):
        if curve := column_points(rows, name):
            label = name.partition("/")[0]
            left.plot(*zip(*curve, strict=True), color=colour, linewidth=width, label=label)
    if left.lines:
        left.legend(frameon=False, fontsize=8, labelcolor="linecolor")
    _panel(right, "BLEU, validation, greedy")
    if curve := column_points(rows, "valid/bleu"):
        right.plot(*zip(*curve, strict=True), color=VALID, linewidth=1.6)
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

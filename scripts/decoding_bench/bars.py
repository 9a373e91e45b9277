"""Rates as bars, one panel per job."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from decoding_bench.report import Line
from seq2seq.pages.plots import INK, METADATA, QUIET

COLORS = {
    "floor": "#b9bfc7",
    "ours": "#376cb4",
    "torch": "#8fb0dc",
    "ct2": "#c2703d",
    "hf": "#7d9a6a",
}
WIDTH, BAR, ROOM = 6.0, 0.26, 0.9  # inches: a panel, a bar, the margins above and below
COLUMNS = 2


def draw(jobs: Mapping[str, Sequence[Line]], path: Path) -> None:
    """Sentences per second of every candidate; whiskers from the slowest to the fastest round."""
    columns = min(COLUMNS, len(jobs))
    rows = math.ceil(len(jobs) / columns)
    height = ROOM + BAR * max(map(len, jobs.values()))
    figure = Figure(figsize=(columns * WIDTH, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, (title, lines) in zip(panels, jobs.items(), strict=False):
        draw_panel(axes, title, lines)
    for axes in panels[len(jobs) :]:
        axes.set_axis_off()
    figure.savefig(path, dpi=130, metadata=METADATA["png"])


def draw_panel(axes: Axes, title: str, lines: Sequence[Line]) -> None:
    names = [line.name for line in lines]
    rates = [median(line.rates) for line in lines]
    ends = [
        [rate - min(line.rates) for rate, line in zip(rates, lines, strict=True)],
        [max(line.rates) - rate for rate, line in zip(rates, lines, strict=True)],
    ]
    colors = [COLORS[name.partition("-")[0]] for name in names]
    axes.barh(names, rates, xerr=ends, color=colors, ecolor=INK, height=0.7)
    for place, rate in enumerate(rates):
        axes.annotate(
            f" {rate:,.0f}", (max(lines[place].rates), place), va="center", fontsize=8, color=INK
        )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel("sentences per second", fontsize=8, color=QUIET)
    axes.tick_params(labelsize=8, colors=QUIET, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)

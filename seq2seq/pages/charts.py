"""Small charts as inline SVG, coloured by the style of the page, and learning curves of runs."""

import csv
import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from seq2seq.pages.labels import to_label

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 76, 26, 40
HUES, NAMES = 8, 12  # colours before lines get dashes; lines that a chart has room to name
NAME = 11  # longest such name in characters

PARTS = ("train", "valid")
TITLES = {"bleu": "BLEU", "chrf": "chrF"}
# Metrics with the best value at the top or the bottom; for others, none is marked as best.
RISING, FALLING = ("bleu", "chrf", "exact"), ("loss", "align_loss", "ser", "truncated")

Point = tuple[float, float]


class Series(NamedTuple):
    """A line in a chart; `best` is a point to mark on it."""

    name: str
    points: Sequence[Point]
    best: Point | None = None


class Axes(NamedTuple):
    """The ticks of both axes; the first and the last are the edges of the chart."""

    x: Sequence[float]
    y: Sequence[float]

    def across(self, value: float) -> float:
        return float(np.interp(value, (self.x[0], self.x[-1]), (LEFT, WIDTH - RIGHT)))

    def up(self, value: float) -> float:
        return float(np.interp(value, (self.y[0], self.y[-1]), (HEIGHT - BOTTOM, TOP)))


def line_chart(series: Sequence[Series], *, x: str, y: str, until: float) -> str:
    """A chart of lines from 0 to `until`, named at the right unless there are too many."""
    points = [point for each in series for point in each.points]
    axes = Axes(round_ticks([0.0, until]), round_ticks([p[1] for p in points]))
    drawn = draw_rules_and_ticks(axes)
    names = spread_apart([axes.up(each.points[-1][1]) for each in series])
    for n, (each, height) in enumerate(zip(series, names, strict=True)):
        line = " ".join(f"{axes.across(a):.1f},{axes.up(b):.1f}" for a, b in each.points)
        kind, name = series_class(n), to_label(each.name, NAME)
        named = 1 < len(series) <= NAMES
        is_told = len(series) == 1 or (named and name == each.name)
        title = "" if is_told else f"<title>{escape(each.name)}</title>"
        drawn.append(f'<polyline class="line {kind}" points="{line}">{title}</polyline>')
        if each.best:
            step, value = each.best
            label = escape(f"{each.name} {value:.4g}, {x} {step:,g}")
            place = f'cx="{axes.across(step):.1f}" cy="{axes.up(value):.1f}"'
            dot = f'<circle class="dot {kind}" {place} r="3.5"><title>{label}</title></circle>'
            drawn.append(dot)
        if named:
            drawn.append(draw_label(WIDTH - RIGHT + 7, height + 4, name, f"name {kind}"))
    drawn.append(draw_label(LEFT - 7, 12, y, "caption"))
    drawn.append(draw_label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, x, "caption middle"))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(f"{y} by {x}")}">{"".join(drawn)}</svg>'
    )


def series_class(n: int) -> str:
    """The CSS classes of a line: its hue, and its dashes once all hues are used."""
    dashes = f" d{n // HUES}" if n >= HUES else ""
    return f"s{n % HUES}{dashes}"


def round_ticks(values: Sequence[float]) -> list[float]:
    """Round numbers that enclose the values."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return list(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high))


def spread_apart(heights: Sequence[float], gap: float = 14) -> list[float]:
    """Heights of names, moved up where they would overlap (the axis labels are below)."""
    placed = list(heights)
    order = sorted(range(len(placed)), key=lambda n: placed[n], reverse=True)
    for below, above in pairwise(order):
        placed[above] = min(placed[above], placed[below] - gap)
    return placed


def draw_rules_and_ticks(axes: Axes) -> list[str]:
    drawn = []
    for tick in axes.y:
        height = axes.up(tick)
        drawn.append(f'<path class="rule" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>')
        drawn.append(draw_label(LEFT - 7, height + 4, f"{tick:,.6g}", "tick end"))
    below = HEIGHT - BOTTOM + 16
    ticks = (draw_label(axes.across(x), below, f"{x:,.6g}", "tick middle") for x in axes.x)
    return [*drawn, *ticks]


def draw_label(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def learning_curves(rows: Sequence[Mapping[str, str]]) -> str:
    """A chart of training and validation for each metric, with the best validation marked."""
    columns = (name.partition("/") for name in {name for row in rows for name in row})
    names = sorted({name for part, _, name in columns if part in PARTS}, key=metric_rank)
    charts, until = [], max((update for update, _ in column_points(rows, "step")), default=0.0)
    for name in names:
        lines = [(part, column_points(rows, f"{part}/{name}")) for part in PARTS]
        best = max if name in RISING else min if name in FALLING else None
        series = [
            Series(part, line, best(line, key=lambda p: p[1]) if best and part == "valid" else None)
            for part, line in lines
            if line
        ]
        if series:
            title = TITLES.get(name, name.replace("_", " "))
            charts.append(line_chart(series, x="update", y=title, until=until))
    if not charts:
        return '<p class="missing">Not available: nothing was measured yet</p>'
    return (
        '<p class="note">A dot marks the best validation.</p>'
        f'<div class="charts">{"".join(charts)}</div>'
    )


def read_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv, preceded by those of the runs that it continues.

    The files of earlier runs were renamed when a later one started; metrics-1.csv is the oldest. A
    run that starts no later than the one before it is a new run in the same folder, and earlier
    rows are ignored.

    Raises: OSError, UnicodeDecodeError or csv.Error if metrics.csv cannot be read.
    """
    rows = read_csv(folder / "metrics.csv")
    n = len(list(folder.glob("metrics-*.csv")))
    while n and (earlier := folder / f"metrics-{n}.csv").is_file():
        before, begin = read_csv(earlier), first_update(rows)
        if not first_update(before) < begin < math.inf:
            break
        rows = [row for row in before if first_update([row]) < begin] + rows
        n -= 1
    return rows


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        # Only a damaged file has cells beyond its columns; `restkey` keeps all keys strings.
        return list(csv.DictReader(file, restkey="more"))


def first_update(rows: Sequence[Mapping[str, str]]) -> float:
    """The first update in some rows; infinity if there is none."""
    return next((update for update, _ in column_points(rows, "step")), math.inf)


def column_points(rows: Sequence[Mapping[str, str]], column: str) -> list[Point]:
    """The finite values of a column as (update, value); updates count from 1, steps from 0."""
    finite = []
    for row in rows:
        try:
            step, value = float(row["step"]), float(row[column])
        except (KeyError, TypeError, ValueError):  # no such column, an empty cell, half a line
            continue
        if math.isfinite(value):
            finite.append((step + 1, value))
    return finite


def metric_rank(name: str) -> tuple[int, str]:
    """Sort key of a metric: the loss first, the speed last."""
    return {"loss": 0, "tokens_per_second": 2}.get(name, 1), name

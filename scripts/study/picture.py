"""Symbols right by length: small panels, a family of rows in each."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seq2seq.pages.plots import INK, METADATA, QUIET, RULE
from study.cells import PLAIN, SCHEMES
from study.page import LENGTHS, group
from study.running import Line
from study.strings import TRAINED

FAMILIES = {
    "positions of mha": ("mha", *(f"{PLAIN}+{scheme}" for scheme in SCHEMES)),
    "scores": ("scaled_dot", "dot", "general", "additive", "concat", "concat_linear", "gaussian"),
    "shared keys and values, kernels": ("flash", "gqa", "mqa", "mla"),
    "sums, mixtures, one vector": (
        "linear", "performer", "efficient", "linformer", "fixed", "ssru",
    ),
    "windows and buckets": ("local_m", "local_p", "longformer", "page_local", "reformer"),
    "context": ("global_context", "dynamic_context", "hierarchical_context"),
}  # fmt: skip
COLORS = ("#1f2328", "#376cb4", "#c2703d", "#3f8f5f", "#8a4fa3", "#b03a48", "#8a8a2b")
DASHES = ("-", "-", "-", "-", (0, (4, 1.5)), (0, (4, 1.5)), (0, (1.5, 1)))


def draw_lengths(cells: Sequence[Line], path: Path) -> None:
    """A row of panels for each family that has been measured, a column for each task."""
    found = group(cells)
    tasks = [task for task in LENGTHS if any(key[0] == task for key in found)]
    families = {
        title: rows
        for title, rows in FAMILIES.items()
        if any((task, row) in found for task in tasks for row in rows)
    }
    figure = Figure(figsize=(4.6 * max(1, len(tasks)), 2.3 * max(1, len(families))))
    figure.set_layout_engine("constrained")
    FigureCanvasAgg(figure)
    if families:
        panels = figure.subplots(len(families), len(tasks), squeeze=False, sharex=True, sharey=True)
        for line, (title, rows) in enumerate(families.items()):
            for column, task in enumerate(tasks):
                shown = dict.fromkeys((PLAIN, *rows))
                curves = {row: curve(found[task, row]) for row in shown if (task, row) in found}
                draw_panel(panels[line][column], f"{task}: {title}", rows, curves)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata=METADATA["png"])


def curve(seeds: Sequence[Line]) -> dict[int, float]:
    """Symbols right at each length, the mean over seeds."""
    lengths = [each["length"] for each in seeds[0]["by_length"]]
    columns = zip(*(seed["by_length"] for seed in seeds), strict=True)
    return {n: fmean(e["symbols"] for e in each) for n, each in zip(lengths, columns, strict=True)}


def draw_panel(
    axes: Axes, title: str, rows: Sequence[str], curves: dict[str, dict[int, float]]
) -> None:
    """Colours follow the place in the family, so that a row has the same one in each column.

    `mha` is in every panel, for comparison.
    """
    axes.axvspan(0, TRAINED + 0.5, color=RULE, alpha=0.5, linewidth=0)
    if PLAIN not in rows and PLAIN in curves:
        plain = curves[PLAIN]
        axes.plot(list(plain), list(plain.values()), color=QUIET, linewidth=0.8, label=PLAIN)
    for place, row in enumerate(rows):
        if points := curves.get(row):
            axes.plot(
                list(points), list(points.values()), color=COLORS[place], linestyle=DASHES[place],
                linewidth=1.3, label=row,
            )  # fmt: skip
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=7, labelcolor=INK, loc="lower left", handlelength=1.8)
    axes.set(xlim=(0, 40.5), ylim=(-2, 103))
    axes.tick_params(labelsize=7.5, labelcolor=QUIET, color=RULE)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.spines[:].set_visible(False)
    axes.spines["bottom"].set(visible=True, color=RULE)

"""Draw the table as a picture with one line per mechanism and one panel per column."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from comparison.rows import Mean, Row, figure, size
from seq2seq.pages.plots import INK, METADATA, QUIET, RULE

POINT, REFERENCE = "#376cb4", "#c2703d"
# Inches: height of a line, width of a panel, margins above and below, width of a letter.
LINE, PANEL, ABOVE, BELOW = 0.24, 1.75, 0.4, 0.3
LETTER = 0.075


class Panel(NamedTuple):
    title: str
    value: Callable[[Row], Mean | None]  # position of the point; None = not measured
    text: Callable[[Row], str]


def only(value: float | None) -> Mean | None:
    return None if value is None else Mean(value, None)


PANELS = (
    Panel("BLEU, test", lambda r: r.test, lambda r: f"{r.test.value:.1f}" if r.test else ""),
    Panel("BLEU, validation", lambda r: r.bleu, lambda r: f"{r.bleu.value:.1f}"),
    Panel("loss, validation", lambda r: r.loss, lambda r: f"{r.loss.value:.3f}"),
    Panel(
        "training, tokens/s",
        lambda r: only(r.speeds and r.speeds.training),
        lambda r: figure(r.speeds.training) if r.speeds else "",
    ),
    Panel(
        "decoding, sentences/s",
        lambda r: only(r.speeds and r.speeds.decoding),
        lambda r: figure(r.speeds.decoding) if r.speeds else "",
    ),
    Panel("bytes a target token", lambda r: only(r.past.each), lambda r: size(r.past)),
    Panel("bytes a source token", lambda r: only(r.source.each), lambda r: size(r.source)),
)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the picture. Error bars show the standard deviation over seeds."""
    panels = [panel for panel in PANELS if panel.value(rows[0]) is not None]
    names = max(len(row.name) for row in rows) * LETTER + 0.25
    across = names + PANEL * len(panels) + 0.1
    up = ABOVE + LINE * len(rows) + BELOW
    figure_ = Figure(figsize=(across, up))
    FigureCanvasAgg(figure_)
    for column, panel in enumerate(panels):
        left = names + PANEL * column
        box = (left / across, BELOW / up, 0.88 * PANEL / across, LINE * len(rows) / up)
        axes = figure_.add_axes(box)
        draw_panel(axes, rows, panel)
        if column == 0:
            axes.set_yticks(range(len(rows)), [row.name for row in rows], parse_math=False)
            axes.tick_params("y", length=0, pad=6, labelsize=8.5, labelcolor=INK)
            axes.get_yticklabels()[0].set_color(REFERENCE)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure_.savefig(path, dpi=130, metadata=METADATA["png"])


def draw_panel(axes: Axes, rows: Sequence[Row], panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=8.5, color=INK, loc="left", pad=8)
    values = [panel.value(row) for row in rows]
    measured = [(place, mean) for place, mean in enumerate(values) if mean is not None]
    low, high = bounds([mean for _, mean in measured])
    for place, mean in measured:
        color = POINT if place else REFERENCE
        axes.plot([low, mean.value], [place, place], color=RULE, linewidth=1.2, zorder=1)
        axes.errorbar(
            mean.value, place, xerr=mean.deviation, fmt="o", color=color, markersize=4.5,
            elinewidth=1.2, clip_on=False,
        )  # fmt: skip
        axes.annotate(
            panel.text(rows[place]), (1, place), xycoords=("axes fraction", "data"), ha="right",
            va="center", fontsize=7.5, color=QUIET,
        )  # fmt: skip
    # The right third of the panel is for the numbers.
    axes.set(xlim=(low, low + (high - low) * 1.55), ylim=(len(rows) - 0.5, -0.5))
    axes.axvline(values[0].value if values[0] else low, color=REFERENCE, linewidth=0.6, alpha=0.5)
    axes.set(yticks=[])
    axes.set_xticks([low], [f"{low:,.4g}"])  # where the lines begin: not always at 0
    axes.tick_params("x", length=0, pad=2, labelsize=7, labelcolor=QUIET)
    axes.spines[:].set_visible(False)
    axes.spines["left"].set(visible=True, color=RULE)


def bounds(means: Sequence[Mean]) -> tuple[float, float]:
    """The ends of the axis. It begins at 0, unless all values are so far from 0 that differences
    would be invisible.
    """
    lows = [mean.value - (mean.deviation or 0) for mean in means]
    highs = [mean.value + (mean.deviation or 0) for mean in means]
    low, high = min(lows), max(highs)
    if low <= 0.6 * high:
        low = min(0.0, low)
    else:
        low -= 0.15 * (high - low) or 0.5 * abs(high)
    return low, high if high > low else low + 1

"""Growth as log-log curves, each labelled at its end."""

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from attention_bench.report import SUMMARY, Growth, Quantity, name_of, power
from seq2seq.pages.plots import INK, METADATA, QUIET, RULE

# Alternating shades: claimed to be sub-quadratic, and not.
LESS, FULL = ("#376cb4", "#0b2a5c", "#5e90d2"), ("#c2703d", "#7d3c12", "#b98a68")
MARKERS = "osD^v<>PX*"
# Inches: a panel, the names beside it, the margins left, above and below, a line of names.
PANEL, NAMES, LEFT, ABOVE, BELOW, LINE = 4.2, 2.0, 0.6, 0.45, 0.3, 0.14
COLUMNS, TITLE = 2, 0.45


def draw(growth: Growth, title: str, path: Path) -> None:
    """One panel per measured quantity; dashes are growth by the first and second power."""
    quantities = growth.quantities(SUMMARY)
    panel = max(3.2, LINE * len(growth.curves))
    across = COLUMNS * (LEFT + PANEL + NAMES)
    up = math.ceil(len(quantities) / COLUMNS) * (ABOVE + panel + BELOW) + TITLE
    figure = Figure(figsize=(across, up))
    FigureCanvasAgg(figure)
    for place, quantity in enumerate(quantities):
        row, column = divmod(place, COLUMNS)
        left = column * (LEFT + PANEL + NAMES) + LEFT
        bottom = up - TITLE - (row + 1) * (ABOVE + panel) - row * BELOW
        box = (left / across, bottom / up, PANEL / across, panel / up)
        draw_panel(figure.add_axes(box), growth, quantity)
    note = "blue*: claims to grow more slowly than T S; each name has its exponent; dashes: T, T^2"
    figure.text(LEFT / across, 1 - 0.25 / up, title, fontsize=11, color=INK)
    figure.text(LEFT / across, 1 - 0.45 / up, note, fontsize=8, color=QUIET, parse_math=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata=METADATA["png"])


def colors(growth: Growth) -> dict[str, str]:
    """The colour of each preset; neighbours differ in shade."""
    shades = {True: cycle(LESS), False: cycle(FULL)}
    return {name: next(shades[p.is_subquadratic]) for name, p in growth.presets.items()}


def draw_panel(axes: Axes, growth: Growth, quantity: Quantity) -> None:
    axes.set(xscale="log", yscale="log")
    ends = {}
    for order, (name, color) in enumerate(colors(growth).items()):
        values = {length: v for length, v in growth.values(name, quantity).items() if v > 0}
        if not values:
            continue
        axes.plot(
            list(values), list(values.values()), color=color, linewidth=1.1, alpha=0.8,
            marker=MARKERS[order % len(MARKERS)], markersize=3,
        )  # fmt: skip
        ends[name] = (max(values), values[max(values)])
    axes.set_title(f"{quantity.title}, {quantity.unit}", fontsize=9, color=INK, loc="left")
    axes.set_xticks(growth.lengths, [short(length) for length in growth.lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelsize=7.5, labelcolor=QUIET, color=RULE)
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set(color=RULE)
    draw_guides(axes, growth.lengths)
    draw_names(axes, growth, quantity, ends)


def draw_guides(axes: Axes, lengths: Sequence[int]) -> None:
    """The first and the second power, from the lower left corner."""
    low, high = axes.get_ylim()
    for degree in (1, 2):
        values = [low * (length / lengths[0]) ** degree for length in lengths]
        axes.plot(lengths, values, color=QUIET, linewidth=0.8, linestyle=(0, (3, 3)), zorder=1)
    axes.set_ylim(low, high)


def draw_names(
    axes: Axes, growth: Growth, quantity: Quantity, ends: dict[str, tuple[int, float]]
) -> None:
    """Labels such as `mha 2.01` at the right, in the order of the curves' ends, with lines."""
    low, high = (math.log(bound) for bound in axes.get_ylim())
    left, right = (math.log(bound) for bound in axes.get_xlim())
    shades = colors(growth)
    names = sorted(ends, key=lambda name: ends[name][1])
    heights = [(math.log(ends[name][1]) - low) / (high - low) for name in names]
    inches = axes.get_window_extent().height / axes.figure.dpi
    for name, place, given in zip(names, apart(heights, LINE / inches), heights, strict=True):
        start = (math.log(ends[name][0]) - left) / (right - left)
        color = shades[name]
        axes.plot(
            [start, 1.0, 1.06], [given, given, place], transform=axes.transAxes, clip_on=False,
            color=color, linewidth=0.5, alpha=0.5,
        )  # fmt: skip
        text = f"{name_of(growth.presets[name])}  {power(growth, name, quantity)}"
        axes.text(
            1.075, place, text, transform=axes.transAxes, fontsize=7.5, color=color, va="center",
            parse_math=False,
        )  # fmt: skip


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights, moved as little as possible to be at least `gap` apart.

    Neighbours that are too close form a block around their mean; blocks that meet are merged. All
    stay between 0 and 1 if there is room.
    """
    blocks: list[tuple[float, int]] = []  # middle, count
    for height in heights:
        middle, count = height, 1
        while True:
            middle = min(max(middle, gap * (count - 1) / 2), 1 - gap * (count - 1) / 2)
            if not blocks or middle - blocks[-1][0] >= gap * (count + blocks[-1][1]) / 2 - 1e-9:
                break
            before, many = blocks.pop()
            middle = (middle * count + before * many) / (count + many)
            count += many
        blocks.append((middle, count))
    return [middle + gap * (i - (count - 1) / 2) for middle, count in blocks for i in range(count)]


def short(length: int) -> str:
    """`512`, `16k`."""
    return f"{length // 1024}k" if length % 1024 == 0 else f"{length:,}"

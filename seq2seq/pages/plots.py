"""Pictures of attention: source along the top, target down the side, large weights dark."""

import io
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.pages.labels import begins_at_the_right, choose_fonts, missing_font_advice, to_label
from seq2seq.pages.page import write_file

# Leave out the date and program name, so that equal weights give equal files.
METADATA = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}

# One hue from white to dark. Equal steps of weight are equal steps of lightness (CIE L*).
RAMP = LinearSegmentedColormap.from_list(
    "attention", ["#ffffff", "#c5daf3", "#8eb5e6", "#5e90d2", "#376cb4", "#1c498c", "#0b2a5c"]
)
INK, QUIET, RULE = "#1f2328", "#6e7781", "#e4e8ee"
SETTINGS: dict[str, Any] = {
    "text.color": INK,
    # Keep words as text in vector pictures, so that they can be searched and copied.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "attention",  # without it, identifiers in SVG are random
}

# Inches: longest side of the grid of maps, largest cell of a single map and of several, gap between
# maps, width of the scale.
PAGE, CELL, SMALL_CELL, GAP, BAR = 14.0, 0.42, 0.26, 0.42, 0.09
# Font sizes in points: the largest and the smallest label.
LARGE, SMALL = 10.5, 3.4


def plot_alignment(
    weights: ArrayLike, source_words: Sequence[str], target_words: Sequence[str], *, path: Path
) -> None:
    """Draw an attention map; each row shows where the model looked when it wrote that word.

    Words are drawn literally, including dollar signs and underscores. Control characters are
    escaped, and long words get an ellipsis in the middle. Characters that no installed font has are
    drawn as boxes, with one warning that says what to install. The columns of a source in a
    right-to-left script run from right to left.

    Args:
        weights: Weights from 0 to 1: (T, S), one row per target word; or (H, T, S), one map per
            head, drawn side by side on one scale.
        path: File that ends in `.png`, `.svg` or `.pdf`; missing folders are made.

    Raises: ConfigError if the suffix is another, or the file cannot be written; DataError if there
        are no words; ValueError if the weights do not fit the words or are not finite.
    """
    grid = np.asarray(weights, dtype=float)
    check_shape(grid, (*grid.shape[:-2], len(target_words), len(source_words)))
    source = [to_label(word) for word in source_words]
    target = [to_label(word) for word in target_words]
    heads = [f"head {head + 1}" for head in range(len(grid))] if grid.ndim == 3 else []
    suffix = picture_format(path)
    text = "".join([*source, *target, *heads])
    families, missing = choose_fonts(text)
    picture = io.BytesIO()
    fonts = {"font.family": [*families, "sans-serif"], "font.sans-serif": families}
    with warnings.catch_warnings(), style.context(["default", SETTINGS | fonts]):
        # One warning below takes the place of these.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure = draw_all(grid.reshape(-1, *grid.shape[-2:]), source, target, heads)
        figure.savefig(
            picture,
            format=suffix,
            dpi=200,
            bbox_inches="tight",
            pad_inches=0.15,
            metadata=METADATA[suffix],
        )
    write_file(path, picture.getvalue(), "picture")
    if missing:
        warnings.warn(missing_font_advice(missing), stacklevel=2)


def picture_format(path: Path, *others: str) -> str:
    """The format of a picture by its suffix: `png`, `svg` or `pdf`.

    Args:
        others: Other suffixes that the caller accepts, named in the error message.

    Raises: ConfigError if the suffix is none of the three.
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in METADATA:
        raise ConfigError(
            f"cannot draw {str(path)!r}: {path.suffix!r} is not a known picture format. "
            f"Name a file that ends in {', '.join([*('.' + known for known in METADATA), *others])}"
        )
    return suffix


def check_shape(grid: np.ndarray, expected: tuple[int, ...]) -> None:
    if 0 in expected:
        raise DataError("there is no alignment to draw: the source or the target has no words")
    if grid.shape != expected:
        raise ValueError(f"weights have shape {grid.shape}; the words need {expected}")
    if not np.isfinite(grid).all():
        raise ValueError("weights should be finite numbers")


class MapLayout(NamedTuple):
    """Sizes of the maps in inches and of the font in points; every `step`-th word has a label."""

    columns: int
    rows: int
    cell: float
    width: float
    height: float
    font: float
    step: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "MapLayout":
        heads, target, source = shape
        largest = CELL if heads == 1 else SMALL_CELL

        def cell_in(columns: int) -> float:
            rows = math.ceil(heads / columns)
            return min(largest, PAGE / (columns * source), PAGE / (rows * target))

        # Choose the number of columns that gives the largest cells and, on ties, the squarest grid.
        square = math.sqrt(heads)
        columns = max(range(1, heads + 1), key=lambda c: (cell_in(c), -abs(c - square), c))
        rows, cell = math.ceil(heads / columns), cell_in(columns)
        fitting = cell * 72 * 0.62
        # If labels would be too small to read, only every second, third, ... word gets one.
        font, step = min(max(fitting, SMALL), LARGE), math.ceil(SMALL / fitting)
        return cls(columns, rows, cell, cell * source, cell * target, font, step)

    def size(self) -> tuple[float, float]:
        """Width and height of all maps with the gaps between them."""
        return (self.columns * (self.width + GAP) - GAP, self.rows * (self.height + GAP) - GAP)

    def corner(self, head: int) -> tuple[float, float]:
        """Left and lower edge of a map, measured from the lower left corner of the grid."""
        row, column = divmod(head, self.columns)
        return column * (self.width + GAP), (self.rows - 1 - row) * (self.height + GAP)


def draw_all(weights: np.ndarray, source: list[str], target: list[str], heads: list[str]) -> Figure:
    layout = MapLayout.of(weights.shape)
    leftwards = begins_at_the_right(source)
    figure = Figure(figsize=layout.size())
    FigureCanvasAgg(figure)
    for head, grid in enumerate(weights):
        axes = place_axes(figure, *layout.corner(head), layout.width, layout.height)
        draw_map(axes, grid, layout)
        if leftwards:
            axes.invert_xaxis()
        if head < layout.columns:
            label_source(axes, source, layout)
        if head % layout.columns == 0:
            label_axis(axes.yaxis, target, layout, pad=4)
        if heads:
            axes.set_xlabel(heads[head], color=QUIET, fontsize=8, labelpad=4, parse_math=False)
    draw_scale(figure, layout)
    return figure


def place_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def draw_map(axes: Axes, grid: np.ndarray, layout: MapLayout) -> None:
    # Lines between cells guide the eye along a row, but between tiny cells they would hide the map.
    line = min(0.8, layout.cell * 2)
    axes.pcolormesh(grid, cmap=RAMP, vmin=0, vmax=1, edgecolors=RULE, linewidth=line)
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=RULE, linewidth=line)


def label_source(axes: Axes, words: Sequence[str], layout: MapLayout) -> None:
    axes.xaxis.tick_top()
    label_axis(axes.xaxis, words, layout, pad=3)
    labels = axes.get_xticklabels()
    widest = max(label.get_window_extent().width for label in labels) / axes.figure.dpi
    if widest > 0.9 * layout.cell * layout.step:
        # Slanted words begin at their columns.
        turn, side = (-60, "right") if axes.xaxis_inverted() else (60, "left")
        for label in labels:
            label.set(rotation=turn, ha=side, va="bottom", rotation_mode="anchor")


def label_axis(axis: Axis, words: Sequence[str], layout: MapLayout, pad: int) -> None:
    """Write words beside the rows or columns of a map, `pad` points away."""
    shown = range(0, len(words), layout.step)
    axis.set_ticks([n + 0.5 for n in shown], [words[n] for n in shown], parse_math=False)
    axis.set_tick_params(length=0, pad=pad, labelsize=layout.font, labelcolor=INK)


def draw_scale(figure: Figure, layout: MapLayout) -> None:
    right, top = layout.size()
    height = min(1.2, top)
    axes = place_axes(figure, right + 0.2, 0, BAR, height)
    axes.pcolormesh(np.linspace(0, 1, 256)[:, None], cmap=RAMP, vmin=0, vmax=1, rasterized=True)
    axes.yaxis.tick_right()
    axes.set(xticks=[], yticks=[0, 256])
    axes.set_yticklabels(["0", "1"])
    axes.tick_params("y", length=0, pad=3, labelsize=7, labelcolor=QUIET)
    # On a shorter scale the caption would cover the labels.
    if height > 1:
        axes.yaxis.set_label_position("right")
        axes.set_ylabel("attention", color=QUIET, fontsize=7, labelpad=-2)
    axes.spines[:].set(color=RULE, linewidth=0.6)

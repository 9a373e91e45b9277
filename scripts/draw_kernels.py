"""Draw docs/images/kernels.png: attention as regression, from a plain mean to a Gaussian kernel.

    python scripts/draw_kernels.py [PATH]

Keys are the places of 40 noisy points, values their heights, queries a fine grid of places. Above:
what attention answers; below: its weights, a row a query.
"""

import math
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from seq2seq.evaluation.plots import INK, METADATA, QUIET, RAMP, RULE
from seq2seq.functional import attend, masked_softmax
from seq2seq.functional.pooling import nearest, uniform
from seq2seq.functional.scores import gaussian

POINTS, QUERIES, SPAN = 40, 160, 5.0
DARKEST = 0.2  # weights from here on look alike; a mean of 40 is pale
POINT, CURVE = "#8eb5e6", "#1c498c"


class Sample(NamedTuple):
    """A regression problem in the shapes of attention."""

    k: Tensor  # (1, 1, S, 1), places of the points, ascending
    v: Tensor  # (1, 1, S, 1), their heights
    q: Tensor  # (1, 1, T, 1), where heights are wanted
    truth: Tensor  # (T,), the curve without noise


def curve(x: Tensor) -> Tensor:
    return 1 + 0.4 * x + (1.8 * x).sin()


def sample(seed: int = 4) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    places = (torch.rand(POINTS, generator=generator) * SPAN).sort().values
    heights = curve(places) + 0.5 * torch.randn(POINTS, generator=generator)
    grid = torch.linspace(0, SPAN, QUERIES)
    k, v, q = (x.view(1, 1, -1, 1) for x in (places, heights, grid))
    return Sample(k, v, q, curve(grid))


def weights_of(given: Sample) -> dict[str, Tensor]:
    """Title -> weights (1, 1, T, S)."""

    def kernel(w: float) -> Tensor:
        return masked_softmax(gaussian(given.q, given.k, torch.tensor([w])))

    return {
        "uniform: the mean": uniform(given.q, given.k),
        "the 5 nearest": nearest(given.q, given.k, 5),
        "Gaussian, w = 1": kernel(1.0),
        "Gaussian, w = 25": kernel(25.0),
    }


def draw_answer(axes: Axes, given: Sample, weights: Tensor, title: str) -> None:
    grid = given.q.flatten()
    axes.plot(grid, given.truth, color=QUIET, linewidth=1, linestyle=(0, (2, 2)))
    axes.scatter(given.k.flatten(), given.v.flatten(), s=9, color=POINT, linewidths=0)
    axes.plot(grid, attend(weights, given.v).flatten(), color=CURVE, linewidth=1.8)
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.set(xlim=(0, SPAN), ylim=(-0.4, 4.8), xticks=[], yticks=[])
    axes.spines[:].set(color=RULE)


def draw_weights(axes: Axes, weights: Tensor) -> None:
    axes.pcolormesh(weights[0, 0], cmap=RAMP, vmin=0, vmax=DARKEST, rasterized=True)
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(
        f"keys; largest weight {weights.max().item():.2g}", fontsize=8, color=QUIET, labelpad=4
    )
    axes.spines[:].set(color=RULE)


def draw(path: Path) -> None:
    given = sample()
    columns = weights_of(given)
    figure = Figure(figsize=(2.5 * len(columns), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(columns))
    for column, (title, weights) in enumerate(columns.items()):
        assert math.isclose(weights.sum().item(), QUERIES, rel_tol=1e-4)
        draw_answer(grid[0, column], given, weights, title)
        draw_weights(grid[1, column], weights)
    grid[0, 0].set_ylabel("values and answers", fontsize=8, color=QUIET)
    grid[1, 0].set_ylabel("queries", fontsize=8, color=QUIET)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata=METADATA["png"])


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/kernels.png"))

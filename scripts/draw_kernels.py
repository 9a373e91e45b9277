"""Draw docs/images/kernels.png and kernel_width.png: attention as kernel regression.

    python scripts/draw_kernels.py [FOLDER]

Keys are the x of 40 noisy points, values are their y, and queries are a fine grid of x.

`kernels.png` shows attention with several kernels, from a plain mean to a Gaussian: above its
output, below its weights, one row per query. `kernel_width.png` shows how the width of the kernel
is learnt: the output with the learnt width, the error to minimise, and the width after each step.
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

from seq2seq.functional import attend, masked_softmax
from seq2seq.functional.pooling import nearest, uniform
from seq2seq.functional.scores import gaussian
from seq2seq.pages.plots import INK, METADATA, QUIET, RAMP, RULE

POINTS, QUERIES, SPAN = 40, 160, 5.0
DARKEST = 0.2  # weights above this have the same colour, so that a mean of 40 is still visible
POINT, CURVE = "#8eb5e6", "#1c498c"
STEPS, RATE = 30, 2.0  # number of steps and learning rate of gradient descent in log w


class Sample(NamedTuple):
    """A regression problem in the shapes of attention."""

    k: Tensor  # (1, 1, S, 1), x of the points, ascending
    v: Tensor  # (1, 1, S, 1), y of the points
    q: Tensor  # (1, 1, T, 1), x of the queries
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
    """Attention weights (1, 1, T, S) of each kernel, by title."""

    def kernel(w: float) -> Tensor:
        return masked_softmax(gaussian(given.q, given.k, torch.tensor([w])))

    return {
        "uniform: the mean": uniform(given.q, given.k),
        "the 5 nearest": nearest(given.q, given.k, 5),
        "Gaussian, w = 1": kernel(1.0),
        "Gaussian, w = 25": kernel(25.0),
    }


def error_of(given: Sample, w: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean squared error at the points themselves, with a kernel of width w (1,)."""
    weights = masked_softmax(gaussian(given.k, given.k, w), mask)
    return (attend(weights, given.v) - given.v).square().mean()


def others() -> Tensor:
    """The mask (S, S) that lets each point see all points except itself."""
    return ~torch.eye(POINTS, dtype=torch.bool)


class Learning(NamedTuple):
    """The widths before each step and after the last one, and their errors."""

    w: list[float]
    error: list[float]


def learn_width(given: Sample) -> Learning:
    """Find the w that minimises the leave-one-out error by gradient descent in log w from w = 1."""
    path = Learning([], [])
    log_w = torch.zeros(1, requires_grad=True)
    for _ in range(STEPS + 1):
        error = error_of(given, log_w.exp(), others())
        path.w.append(log_w.exp().item())
        path.error.append(error.item())
        (slope,) = torch.autograd.grad(error, log_w)
        with torch.no_grad():
            log_w -= RATE * slope
    return path


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


def draw_error(axes: Axes, given: Sample, path: Learning) -> None:
    widths = torch.logspace(-1, 3, 80)
    for mask, name in ((others(), "from the others"), (None, "from all, itself included")):
        errors = [error_of(given, w[None], mask).item() for w in widths]
        axes.plot(widths, errors, color=QUIET, linewidth=1)
        above = max(errors[50:]) + 0.05
        axes.text(widths[-1].item(), above, name, fontsize=8, color=QUIET, ha="right")
    axes.scatter(path.w, path.error, s=14, color=CURVE, linewidths=0, zorder=2)
    axes.set_xscale("log")
    axes.set_title("squared error at each point", fontsize=10, color=INK, loc="left")
    axes.set_xlabel("w", fontsize=8, color=QUIET)
    axes.set_ylim(bottom=0)


def draw_steps(axes: Axes, path: Learning) -> None:
    axes.plot(path.w, color=CURVE, linewidth=1.8)
    axes.set_title("w after each step", fontsize=10, color=INK, loc="left")
    axes.set_xlabel("steps of gradient descent", fontsize=8, color=QUIET)
    axes.set_ylim(bottom=0)


def draw_width(file: Path) -> None:
    given = sample()
    path = learn_width(given)
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    FigureCanvasAgg(figure)
    answer, error, steps = figure.subplots(1, 3)
    weights = masked_softmax(gaussian(given.q, given.k, torch.tensor(path.w[-1:])))
    draw_answer(answer, given, weights, f"learnt: w = {path.w[-1]:.2g}")
    draw_error(error, given, path)
    draw_steps(steps, path)
    for axes in (error, steps):
        axes.tick_params(labelsize=8, colors=QUIET)
        axes.spines[:].set(color=RULE)
    save(figure, file)


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata=METADATA["png"])


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
    save(figure, path)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    draw(folder / "kernels.png")
    draw_width(folder / "kernel_width.png")

"""The pictures of attention as kernel regression."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import draw_kernels
import pytest
import torch
from helpers.builders import assert_equal
from torch import Tensor

from seq2seq.functional import attend, masked_softmax
from seq2seq.functional.scores import gaussian


def test_the_script_draws_its_pictures_into_new_folders(tmp_path: Path) -> None:
    for draw in (draw_kernels.draw, draw_kernels.draw_width):
        picture = tmp_path / draw.__name__ / "picture.png"
        draw(picture)
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_narrower_kernel_and_fewer_neighbours_are_nearer_to_the_curve_than_the_mean() -> None:
    given = draw_kernels.sample()
    columns = draw_kernels.weights_of(given)
    errors = {
        title: (attend(weights, given.v).flatten() - given.truth).square().mean()
        for title, weights in columns.items()
    }
    mean = attend(columns["uniform: the mean"], given.v).flatten()
    assert_equal(mean, torch.full_like(mean, given.v.mean().item()), 1e-5)
    assert min(errors, key=lambda title: float(errors[title])) != "uniform: the mean"
    assert errors["Gaussian, w = 25"] < errors["Gaussian, w = 1"]


def test_the_learnt_width_minimises_the_leave_one_out_error() -> None:
    given = draw_kernels.sample()
    path = draw_kernels.learn_width(given)
    assert path.w[0] == 1.0
    assert all(later < earlier for earlier, later in pairwise(path.error[:20]))
    x, y = given.k.double().flatten(), given.v.double().flatten()

    def error(w: float) -> float:
        """The formula, one point at a time."""
        total = 0.0
        for i in range(len(x)):
            left = torch.arange(len(x)) != i
            kernel = (-w / 2 * (x[i] - x[left]) ** 2).exp()
            total += float(((kernel * y[left]).sum() / kernel.sum() - y[i]) ** 2)
        return total / len(x)

    learnt = path.w[-1]
    assert abs(error(learnt) - path.error[-1]) < 1e-5
    candidates = torch.logspace(-1, 3, 60).tolist()
    assert error(learnt) < min(error(w) for w in candidates) + 1e-4
    # If a point sees itself, a narrower kernel is always better.
    seen = [draw_kernels.error_of(given, torch.tensor([w])).item() for w in (learnt, 100, 1000)]
    assert seen == sorted(seen, reverse=True)


def test_the_learnt_width_is_nearer_to_the_curve_than_the_chosen_ones() -> None:
    given = draw_kernels.sample()

    def distance(weights: Tensor) -> float:
        return (attend(weights, given.v).flatten() - given.truth).square().mean().item()

    learnt = torch.tensor(draw_kernels.learn_width(given).w[-1:])
    chosen = min(distance(weights) for weights in draw_kernels.weights_of(given).values())
    assert distance(masked_softmax(gaussian(given.q, given.k, learnt))) < chosen


def code_of_the_page() -> str:
    page = Path(__file__).parents[2] / "docs" / "attention.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return "".join(code for code in blocks if "log_w" in code)


@pytest.mark.skipif(not code_of_the_page(), reason="the page does not show the code")
def test_the_code_of_the_page_learns_the_width_of_minimum_error() -> None:
    names: dict[str, Any] = {}
    exec(compile(code_of_the_page(), "attention.md", "exec"), names)
    given = draw_kernels.Sample(names["x"], names["y"], names["x"], names["y"])
    learnt = names["log_w"].exp()
    mask = draw_kernels.others()
    lowest = draw_kernels.error_of(given, learnt, mask)
    for factor in (0.5, 2.0):
        assert lowest < draw_kernels.error_of(given, factor * learnt, mask)

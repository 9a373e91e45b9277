"""The picture of attention as regression."""

from pathlib import Path

import draw_kernels
import torch
from helpers import assert_equal

from seq2seq.functional import attend


def test_the_script_draws_a_picture_into_a_new_folder(tmp_path: Path) -> None:
    draw_kernels.draw(tmp_path / "new" / "kernels.png")
    assert (tmp_path / "new" / "kernels.png").read_bytes().startswith(b"\x89PNG")


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

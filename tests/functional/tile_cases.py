"""What the tests of attention in tiles share."""

from collections.abc import Callable

import torch
from helpers.builders import assert_equal, gradients
from torch import Tensor


def assert_same(actual: Tensor, expected: Tensor, *leaves: Tensor) -> None:
    """Two answers and their gradients are equal, to all but a few of the digits of float64."""
    assert_equal(actual, expected, 1e-12)
    slope = torch.randn_like(expected)
    wanted = gradients((expected * slope).sum(), *leaves)
    assert_equal(gradients((actual * slope).sum(), *leaves), wanted, 1e-12)


def visible(kind: str, shape: tuple[int, int, int, int]) -> Tensor | None:
    """Masks: of padding, of anything for each head, and with rows that may attend to nothing."""
    B, _, queries, keys = shape
    if kind == "none":
        return None
    if kind == "padding":
        lengths = torch.tensor([keys // (b + 1) + (b > 0) for b in range(B)])
        return (torch.arange(keys) < lengths[:, None])[:, None, None]
    mask = torch.rand(shape) < 0.6
    if kind == "empty":
        mask[0, :, queries // 2] = False
        mask[1] = False
    return mask


def held_for_the_gradient(run: Callable[[], object]) -> int:
    """Elements that autograd holds after `run`."""
    held: dict[int, int] = {}

    def hold(x: Tensor) -> Tensor:
        held[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // x.element_size()
        return x

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda x: x):
        run()
    return sum(held.values())

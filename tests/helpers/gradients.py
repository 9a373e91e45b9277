"""Comparisons of gradients, and the memory that autograd holds for them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from helpers.builders import assert_equal, gradients


def assert_same(
    actual: Tensor | Sequence[Tensor],
    expected: Tensor | Sequence[Tensor],
    *leaves: Tensor,
    tolerance: float | None = None,
) -> None:
    """Two answers, or two tuples of them, are equal, and so are their gradients."""
    assert_equal(actual, expected, tolerance)
    answers = [[x] if isinstance(x, Tensor) else x for x in (actual, expected)]
    slopes = [torch.randn_like(x) for x in answers[1]]
    ours, theirs = (
        sum((x * slope).sum() for x, slope in zip(each, slopes, strict=True)) for each in answers
    )
    assert_equal(gradients(ours, *leaves), gradients(theirs, *leaves), tolerance)


def held_for_the_gradient(run: Callable[[], object]) -> list[int]:
    """Elements of each storage that autograd holds after `run`."""
    held: dict[int, int] = {}

    def hold(x: Tensor) -> Tensor:
        held[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // x.element_size()
        return x

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda x: x):
        kept = run()  # alive, so that no storage takes the place of another
    assert kept is not None
    return [*held.values()]

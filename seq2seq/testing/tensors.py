"""Tensors and comparisons for tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)

# The rounding of a few sums, which processors with wider vectors add in another order.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}


def assert_equal(actual: Any, expected: Any, tolerance: float | None = None) -> None:
    """Equal up to rounding, relative and absolute: by default that of the narrowest type."""
    if tolerance is None:
        tolerance = max((TOLERANCES.get(kind, 0.0) for kind in kinds_in(expected)), default=1e-9)
    torch.testing.assert_close(
        actual, expected, atol=tolerance, rtol=tolerance, equal_nan=False, check_dtype=True
    )


def kinds_in(values: Any) -> Iterator[torch.dtype]:
    """The types of all tensors in nested tuples, lists and dicts."""
    if isinstance(values, Tensor):
        yield values.dtype
    elif isinstance(values, Mapping | list | tuple):
        for each in values.values() if isinstance(values, Mapping) else values:
            yield from kinds_in(each)


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def mask_of(lengths: Sequence[int], size: int) -> Tensor:
    """(N, size) bool, True for the first `lengths[i]` entries of row i."""
    return torch.arange(size) < torch.tensor(lengths)[:, None]


def gradients(loss: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """d loss / d input, zeros for an input that the loss does not depend on."""
    slopes = torch.autograd.grad(loss, inputs, allow_unused=True)
    return tuple(
        torch.zeros_like(x) if g is None else g for x, g in zip(inputs, slopes, strict=True)
    )


def randomise(module: M, size: float = 0.3) -> M:
    """The module in float64 and evaluation mode, with no parameter left at zero or one.

    Many start at zero (biases, the additive score's u): their effect would stay untested.
    """
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=size)
    return module


@contextmanager
def poison_memory() -> Iterator[None]:
    """Inside, uninitialised memory holds NaN, so that reading it cannot go unnoticed."""

    def poison(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def allocate_poisoned(*arguments: Any, **options: Any) -> Tensor:
            with torch.no_grad():
                fresh = allocate(*arguments, **options)
                return fresh.fill_(torch.nan) if fresh.is_floating_point() else fresh

        return allocate_poisoned

    with ExitStack() as patches:
        for owner, name in ((torch, "empty"), (torch, "empty_like"), (Tensor, "new_empty")):
            patches.enter_context(patch.object(owner, name, poison(getattr(owner, name))))
        yield

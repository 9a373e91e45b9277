"""The subjects of the contract's checks: mechanisms in a role, with inputs and comparisons."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar
from unittest.mock import patch

import torch
from torch import Tensor, nn

from seq2seq.attention import Attention, Place, Role
from seq2seq.base.registry import check_options, options_of
from seq2seq.models.layers.positions import POSITIONS, PositionScheme

DIM = 32
SIZES = (1, 7, 65)
M = TypeVar("M", bound=nn.Module)
# Allowances for rounding: processors with wider vectors sum in another order.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}


class Subject(Protocol):
    """One mechanism in one role."""

    @property
    def role(self) -> Role: ...

    @property
    def mechanism(self) -> type[Attention[Any]]: ...

    @property
    def options(self) -> dict[str, Any]:
        """The options, as in a preset, including `name`."""

    def build(self, seed: int = 0) -> Attention[Any]:
        """Build the mechanism in float64 and evaluation mode, with random parameters."""


class Placed(NamedTuple):
    """A class with its options, in one of its roles and with one position scheme."""

    mechanism: type[Attention[Any]]
    role: Role
    position: str | type[PositionScheme]  # name in the table, or a class without options
    options: dict[str, Any]

    def __str__(self) -> str:
        scheme = self.position if isinstance(self.position, str) else self.position.__name__
        given = {"position": scheme, **self.options}
        chosen = " ".join(f"{name}={value}" for name, value in given.items() if name != "name")
        return f"{self.mechanism.__name__} in the {self.role.description}, {chosen}"

    def build(self, seed: int = 0) -> Attention[Any]:
        # The scheme belongs to the model around the mechanism, whose seed is always the same.
        torch.default_generator.manual_seed(0)
        defaults = {name: p.default for name, p in options_of(self.mechanism).items()}
        scheme = build_scheme(self.position, self.role, {**defaults, **self.options})
        torch.default_generator.manual_seed(seed)
        options = {name: value for name, value in self.options.items() if name != "name"}
        check_options(self.mechanism, options, "attn")
        return randomise(self.mechanism(Place(self.role, DIM, DIM, scheme), **options))


def build_scheme(
    position: str | type[PositionScheme], role: Role, options: Mapping[str, Any]
) -> Any:
    """A position scheme that acts inside attention, with random parameters; None for `none`."""
    if position == "none":
        return None
    scheme = POSITIONS.find(position) if isinstance(position, str) else position
    heads = {"num_heads": options.get("num_heads", 1)} if "num_heads" in options_of(scheme) else {}
    return randomise(scheme(role is Role.DECODER, DIM, **heads))


class AttentionInputs(NamedTuple):
    """The arguments of `forward`, for three rows of different lengths."""

    x: Tensor  # queries, which require a gradient
    source: Tensor | None  # states that they attend to; None in self-attention
    mask: Tensor | None  # True for real tokens, False for padding; None in the causal decoder
    real: Tensor  # (N, T), True for queries whose outputs are defined

    @property
    def leaves(self) -> list[Tensor]:
        return [self.x] if self.source is None else [self.x, self.source]


def lengths_of(size: int) -> list[int]:
    """Lengths of three rows whose longest has `size` tokens."""
    return [size, max(1, size // 2), 1]


def make_inputs(subject: Subject, size: int, dtype: torch.dtype = torch.float64) -> AttentionInputs:
    """Inputs for cross-attention, five queries for `size` source states; or for self-attention of
    `size` tokens.
    """
    cross = subject.role is Role.CROSS
    x = randn(3, 5 if cross else size, DIM).to(dtype).requires_grad_()
    source = randn(3, size, DIM).to(dtype).requires_grad_() if cross else None
    mask = None if subject.role is Role.DECODER else mask_of(lengths_of(size), size)
    all_real = torch.ones(x.shape[:2], dtype=torch.bool)
    real = mask if subject.role is Role.ENCODER and mask is not None else all_real
    return AttentionInputs(x, source, mask, real)


def assert_equal(actual: Any, expected: Any, tolerance: float | None = None) -> None:
    """Assert that two values are equal up to a relative and absolute tolerance, by default that of
    their least precise type.
    """
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
    """The gradients d loss / d input; zeros for an input that does not affect the loss."""
    slopes = torch.autograd.grad(loss, inputs, allow_unused=True)
    pairs = zip(inputs, slopes, strict=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in pairs)


def randomise(module: M, size: float = 0.3) -> M:
    """Set all parameters of a module to random values, in float64 and evaluation mode.

    Many parameters start at zero (biases, the additive score's u), so without this their effect
    would not be tested.
    """
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=size)
    return module


@contextmanager
def poison_memory() -> Iterator[None]:
    """Fill uninitialised memory with NaN inside the block, so that reading it is noticed."""

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

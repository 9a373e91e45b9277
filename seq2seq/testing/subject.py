"""A mechanism in one place, as the contract tests it, and what it is given."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from seq2seq.attention import Attention, Place, Role
from seq2seq.nn.positions import POSITIONS
from seq2seq.registry import check_options, options_of
from seq2seq.testing.tensors import mask_of, randn, randomise

DIM = 32
SIZES = (1, 7, 65)


class Subject(Protocol):
    """One mechanism in one role."""

    @property
    def role(self) -> Role: ...

    @property
    def mechanism(self) -> type[Attention[Any]]: ...

    @property
    def options(self) -> dict[str, Any]:
        """As in a preset, `name` included."""

    def build(self, seed: int = 0) -> Attention[Any]:
        """With random parameters in float64, in evaluation mode."""


class Placed(NamedTuple):
    """A class with its options, where one of its roles and one scheme of positions place it."""

    mechanism: type[Attention[Any]]
    role: Role
    position: str
    options: dict[str, Any]

    def __str__(self) -> str:
        given = {"position": self.position, **self.options}
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


def build_scheme(name: str, role: Role, options: Mapping[str, Any]) -> Any:
    """A scheme that acts inside attention, with random parameters; None for `none`."""
    if name == "none":
        return None
    scheme = POSITIONS.find(name)
    heads = {"num_heads": options["num_heads"]} if "num_heads" in options_of(scheme) else {}
    return randomise(scheme(role is Role.DECODER, DIM, **heads))


class AttentionInputs(NamedTuple):
    """The arguments of `forward`, for three rows of different lengths."""

    x: Tensor  # queries; they need a gradient
    source: Tensor | None  # what they attend to; None in self-attention
    mask: Tensor | None  # padding after the shorter rows; none in the decoder, which is causal
    real: Tensor  # (N, T), the queries whose outputs are defined

    @property
    def leaves(self) -> list[Tensor]:
        return [self.x] if self.source is None else [self.x, self.source]


def lengths_of(size: int) -> list[int]:
    """Lengths of three rows whose longest has `size` tokens."""
    return [size, max(1, size // 2), 1]


def make_inputs(subject: Subject, size: int, dtype: torch.dtype = torch.float64) -> AttentionInputs:
    """Five queries to `size` states of a source, or `size` tokens that attend to themselves."""
    cross = subject.role is Role.CROSS
    x = randn(3, 5 if cross else size, DIM).to(dtype).requires_grad_()
    source = randn(3, size, DIM).to(dtype).requires_grad_() if cross else None
    mask = None if subject.role is Role.DECODER else mask_of(lengths_of(size), size)
    all_real = torch.ones(x.shape[:2], dtype=torch.bool)
    real = mask if subject.role is Role.ENCODER and mask is not None else all_real
    return AttentionInputs(x, source, mask, real)

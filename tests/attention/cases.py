"""Every attention that a command line can choose: read from conf/attn, not listed here.

A mechanism added to the zoo (a file, a line in the table, a preset) is in these lists at once.
"""

import itertools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin

import pytest
import torch
from helpers.builders import SMALL, position_scheme, presets, randomised, small
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seq2seq.attention import ATTENTION, Attention, Place, Role, build_attention
from seq2seq.attention.roles import without_elsewhere
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import options_of
from seq2seq.models import MODELS
from seq2seq.models.layers.positions import POSITIONS
from seq2seq.testing import in_cross as in_cross
from seq2seq.testing import in_decoder as in_decoder
from seq2seq.testing import reads_source as reads_source
from seq2seq.testing import shows_weights as shows_weights
from seq2seq.testing.subject import DIM
from seq2seq.testing.subject import SIZES as SIZES
from seq2seq.testing.subject import lengths_of as lengths_of
from seq2seq.testing.subject import randn as randn

# Presets of the softmax family with shared keys, a hidden layer, and a bias of keys.
WITH_POSITIONS = ("gqa", "additive", "gaussian")


class Case(NamedTuple):
    """A preset of conf/attn in one role of one model, with one position scheme and one kernel.

    A variant is the preset with one other choice, `form=mean`.
    """

    preset: str
    model: str
    role: Role
    position: str = "none"
    kernel: str = "auto"
    variant: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, self))

    @property
    def is_rare(self) -> bool:
        """True if two things differ from the preset in a Transformer, or if another case computes
        the same: in the second RNN, with ALiBi (whose biases are added as T5's are), and with
        positions that another preset of the softmax family already tests.
        """
        in_rnn = self.model != "transformer"
        changes = (in_rnn, self.position != "none", self.kernel != "auto", self.variant != "")
        alike = self.options["name"] == "multihead" and self.preset not in WITH_POSITIONS
        again = self.position == "alibi" or (self.position != "none" and alike)
        return sum(changes) > 1 or self.model == "rnn_luong" or again

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        return (pytest.mark.slow,) if self.is_rare else ()

    @property
    def options(self) -> dict[str, Any]:
        """The options of the mechanism in this role."""
        options = without_elsewhere(small(self.model, f"attn={self.preset}")["attn"])
        if "kernel" in options:
            options["kernel"] = self.kernel
        option, _, value = self.variant.partition("=")
        return {**options, option: value} if option else options

    @property
    def mechanism(self) -> type[Attention[Any]]:
        return ATTENTION.find(self.options["name"])

    def build(self, seed: int = 0) -> Attention[Any]:
        """The mechanism with random parameters in float64, in evaluation mode."""
        # The scheme belongs to the model around the mechanism, whose seed is always the same.
        torch.default_generator.manual_seed(0)
        scheme = position_scheme(self.position, self.role is Role.DECODER)
        torch.default_generator.manual_seed(seed)
        place = Place(self.role, DIM, DIM, None if scheme.hook is None else scheme)
        return randomised(build_attention(self.options, place))


def kernels(case: Case) -> list[str]:
    """Every way in which the mechanism of a case can be computed."""
    return choices(case.mechanism).get("kernel", ["auto"])


def choices(mechanism: type[Attention[Any]]) -> dict[str, list[str]]:
    """The options with a few allowed words, and those words."""
    by_option = {}
    for option, parameter in options_of(mechanism).items():
        alternatives = (parameter.annotation, *get_args(parameter.annotation))
        words = [get_args(one) for one in alternatives if get_origin(one) is Literal]
        by_option[option] = [word for group in words for word in group]
    assert by_option.get("kernel", ["auto"]), (
        "kernels are listed as a Literal, so that tests find them"
    )
    return {option: words for option, words in by_option.items() if words}


def variants(case: Case) -> list[str]:
    """The preset itself, and the preset with each other word of each option that is a choice."""
    others = [
        f"{option}={word}"
        for option, words in choices(case.mechanism).items()
        for word in words
        if option != "kernel" and word != case.options[option]
    ]
    return ["", *others]


def positions(case: Case) -> list[str]:
    """Every position scheme that acts inside attention and that the mechanism claims to support."""
    if case.role is Role.CROSS:
        return ["none"]
    inside = [n for n in presets("position") if POSITIONS[n].hook in case.mechanism.supports]
    return ["none", *inside]


def sort_cases() -> tuple[list[Case], list[Case], list[Case]]:
    """Cases that can be built, that a position or kernel rules out, and that the role rules out."""
    built, refused, role_refusals = [], [], []
    for model in SMALL:
        for preset in presets("attn"):
            for role in sorted(MODELS[model].roles):
                first = Case(preset, model, role)
                if role not in first.mechanism.roles:
                    role_refusals.append(first)
                    continue
                for position, kernel, variant in itertools.product(
                    positions(first), kernels(first), variants(first)
                ):
                    case = first._replace(position=position, kernel=kernel, variant=variant)
                    try:
                        case.build()
                    except ConfigError:
                        refused.append(case)
                    else:
                        built.append(case)
    return built, refused, role_refusals


BUILT, REFUSED, UNDEFINED = sort_cases()
Test = Callable[..., None]
Condition = Callable[[Case], bool]


def every(*conditions: Condition) -> Callable[[Test], Test]:
    """Run the test for every case that meets the conditions."""
    cases = [case for case in BUILT if all(condition(case) for condition in conditions)]
    marked = [pytest.param(case, marks=case.marks) for case in cases]
    return pytest.mark.parametrize("case", marked, ids=str)


def by_default_kernel(case: Case) -> bool:
    """True for the first kernel, which suffices to test what lies around kernels."""
    return case.kernel == kernels(case)[0]


class Largest(TorchDispatchMode):
    """Remembers the size of the largest new tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor):
                size = x.untyped_storage().nbytes() // x.element_size()
                self.elements = max(self.elements, size)
        return out

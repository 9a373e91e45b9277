"""Every attention that a command line can put somewhere: found in conf/attn, not listed here.

A mechanism added to the zoo (a file, a line in the table, a preset) is in these lists at once.
"""

from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import torch
from helpers import SMALL, composed, position_scheme, presets, randomised
from torch import Tensor

from seq2seq.attention import ATTENTION, Attention, Place, Role, build_attention
from seq2seq.attention.roles import without_elsewhere
from seq2seq.errors import ConfigError
from seq2seq.models import MODELS
from seq2seq.nn.positions import POSITIONS
from seq2seq.tables import options_of

DIM = 32


class Case(NamedTuple):
    """A preset of conf/attn in one role of one model, with one position scheme and one kernel."""

    preset: str
    model: str
    role: Role
    position: str = "none"
    kernel: str = "auto"

    def __str__(self) -> str:
        return "-".join(self)

    @property
    def options(self) -> dict[str, Any]:
        """The node of the configuration that stands in this role."""
        node = composed(*SMALL[self.model], f"attn={self.preset}")["attn"]
        options = without_elsewhere(node)
        return {**options, "kernel": self.kernel} if "kernel" in options else options

    @property
    def mechanism(self) -> type[Attention[Any]]:
        return ATTENTION.find(self.options["name"])

    def build(self, seed: int = 0) -> Attention[Any]:
        """The mechanism with random parameters in float64, in evaluation mode."""
        torch.default_generator.manual_seed(seed)
        scheme = position_scheme(self.position)
        place = Place(self.role, DIM, DIM, None if scheme.hook is None else scheme)
        return randomised(build_attention(self.options, place))


def kernels(case: Case) -> list[str]:
    """Every way in which the mechanism of a case can be computed."""
    if "kernel" not in options_of(case.mechanism):
        return ["auto"]
    hint = get_type_hints(case.mechanism.__init__)["kernel"]
    assert get_origin(hint) is Literal, "kernels are listed as a Literal, so that tests find them"
    return list(get_args(hint))


def positions(case: Case) -> list[str]:
    """Every position scheme that acts inside attention and that the mechanism claims to honour."""
    if case.role is Role.CROSS:
        return ["none"]
    inside = [n for n in presets("position") if POSITIONS[n].hook in case.mechanism.honours]
    return ["none", *inside]


@cache
def sort_cases() -> tuple[list[Case], list[Case], list[Case]]:
    """Cases that can be built, that a position or a kernel forbids, and that the role forbids."""
    built, refused, undefined = [], [], []
    for model in SMALL:
        for preset in presets("attn"):
            for role in sorted(MODELS[model].roles):
                first = Case(preset, model, role)
                if role not in first.mechanism.roles:
                    undefined.append(first)
                    continue
                for position in positions(first):
                    for kernel in kernels(first):
                        case = first._replace(position=position, kernel=kernel)
                        try:
                            case.build()
                        except ConfigError:
                            refused.append(case)
                        else:
                            built.append(case)
    return built, refused, undefined


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)

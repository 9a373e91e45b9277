"""`check_position_scheme` accepts our schemes, and names what a class does wrong."""

import re
from typing import Any

import pytest
from helpers.builders import composed, presets
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.models.layers.positions import POSITIONS, ALiBi, PositionScheme, Rotary, Sinusoidal
from seq2seq.testing import check_position_scheme


@pytest.mark.parametrize("preset", sorted({*presets("position")} - {"none"}))
def test_our_schemes_keep_the_contract(preset: str) -> None:
    options = dict(composed(f"position={preset}")["position"])
    check_position_scheme(POSITIONS[options.pop("name")], **options)


class Idle(PositionScheme):
    hook = "bias"


class Unknown(PositionScheme):
    hook = "shift"


class Both(Sinusoidal):
    """It acts at a second hook."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return -x


class Order(Sinusoidal):
    """A token's vector depends on how many tokens are given at once."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().embed(x, positions % x.shape[1] + x.shape[1])


class Constant(Sinusoidal):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + 1


class Relative(ALiBi):
    """A bias that depends on the number of keys."""

    def bias(self, distance: Tensor, heads: int) -> Tensor:
        return super().bias(distance, heads) / distance.shape[-1]


class OneRow(Rotary):
    """It does not accept positions for each row."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().rotate(x, positions[0] if positions.dim() > 1 else positions + 1)


class NotAlone(ALiBi):
    """Equal for all distances: it cannot tell the order of tokens."""

    def bias(self, distance: Tensor, heads: int) -> Tensor:
        return 0 * super().bias(distance, heads)


@pytest.mark.parametrize(
    ("scheme", "check"),
    [
        (Idle, "check_hook"),
        (Unknown, "check_hook"),
        (Both, "check_hook"),
        (Order, "check_embedding"),
        (Constant, "check_embedding"),
        (Relative, "check_steps"),
        (OneRow, "check_positions_by_row|check_ages"),
        (NotAlone, "check_positions"),
    ],
)
def test_a_scheme_that_breaks_a_rule_is_told_which(scheme: type[Any], check: str) -> None:
    with pytest.raises(AssertionError, match=f"^{scheme.__name__} breaks the contract") as caught:
        check_position_scheme(scheme)
    assert re.search(check, str(caught.value)), caught.value


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"unknown option position\.basis; did you mean .*base"):
        check_position_scheme(Rotary, basis=3.0)

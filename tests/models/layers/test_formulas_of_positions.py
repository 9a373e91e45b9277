"""Rotations and ALiBi as a model gets them, against formulas written in another way: with complex
numbers, and as the paper's authors published theirs.
"""

import cmath
import math

import pytest
import torch
from helpers.builders import assert_equal, model_config, position_scheme

from seq2seq.functional.positions import distances
from seq2seq.models import build_model
from seq2seq.models.layers.positions import PositionScheme


def rotary_of(*overrides: str) -> PositionScheme:
    """The scheme of the decoder's self-attention in a whole model."""
    model = build_model(model_config("transformer", "position=rope", *overrides), 20, 20)
    (found,) = {
        each.place.position for each in model.attentions if each.place.role.value == "decoder"
    }
    return found


@pytest.mark.parametrize("base", [None, 10.0, 5e5])
def test_pairs_are_multiplied_by_complex_numbers_of_that_base(base: float | None) -> None:
    scheme = rotary_of() if base is None else rotary_of(f"position.base={base}")
    width, places = 10, [0, 1, 2, 77, 1000]
    x = torch.randn(1, 2, len(places), width, dtype=torch.float64)
    turned = scheme.rotate(x, torch.tensor(places))
    for t, p in enumerate(places):
        for i in range(width // 2):
            turn = cmath.exp(1j * p / math.pow(base or 10_000, i / (width / 2)))
            for h in range(2):
                expected = complex(x[0, h, t, i], x[0, h, t, i + width // 2]) * turn
                found = complex(turned[0, h, t, i], turned[0, h, t, i + width // 2])
                assert found == pytest.approx(expected, abs=1e-9)


def published_slopes(heads: int) -> list[float]:
    """`get_slopes` of https://github.com/ofirpress/attention_with_linear_biases."""

    def of_power(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return of_power(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return of_power(closest) + published_slopes(2 * closest)[0::2][: heads - closest]


@pytest.mark.parametrize("heads", [*range(1, 18), 31, 33])
def test_heads_of_any_number_have_the_published_slopes(heads: int) -> None:
    bias = position_scheme("alibi").bias(distances(torch.tensor([0, 9]), 10), heads)
    assert_equal(bias[:, 1, 8], -torch.tensor(published_slopes(heads)))
    assert_equal(bias[:, 0, 3], -3 * torch.tensor(published_slopes(heads)))

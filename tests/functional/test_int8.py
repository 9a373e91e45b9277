"""Linear maps in 8-bit integers, against sums in int64 and against the bounds of rounding."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seq2seq.functional import int8
from seq2seq.functional.int8 import (
    Int8Weight,
    float_product,
    int8_linear,
    int8_weight,
    int_mm_product,
    is_exact,
    packed_product,
    packed_weight,
    quantize_rows,
    scaled_product,
)

Product = Callable[[Tensor, Int8Weight], Tensor]

# Rows, inputs, outputs; the last two have sums that float32 cannot hold, and one row.
SHAPES = [
    (1, 1, 1),
    (2, 3, 5),
    (7, 64, 33),
    (65, 100, 301),
    (320, 256, 256),
    (3, 1100, 2),
    (1, 9, 4),
]


def integers(*shape: int) -> Tensor:
    return torch.randint(-127, 128, shape, dtype=torch.int8)


def scales_beside(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Half a step of each row of x (R, 1) and of the weight (1, O): the largest rounding error."""
    return x.abs().amax(1, keepdim=True) / 254, weight.abs().amax(1)[None] / 254


@pytest.mark.parametrize("product", [packed_product, int_mm_product, float_product, scaled_product])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("extreme", [False, True])
def test_products_are_those_of_long_integers(
    product: Product, shape: tuple[int, int, int], extreme: bool
) -> None:
    if product is packed_product and not is_exact(product):
        pytest.skip("this processor or this PyTorch has no packed kernel")
    if product is int_mm_product and not is_exact(product):
        pytest.skip("this processor or this PyTorch has no exact _int_mm")
    rows, inputs, outputs = shape
    x, w = integers(rows, inputs), integers(outputs, inputs)
    if extreme:
        x, w = x.sign() * 127, w.sign() * 127
        x[0], w[0] = 127, 127
    scale = torch.rand(outputs)
    weight = packed_weight(w, scale, use_packed=is_exact(packed_product))
    expected = (x.long()[:, None] * w.long()[None]).sum(-1)
    assert torch.equal(product(x, weight), expected.float() * scale)


@pytest.mark.parametrize("size", [1e-20, 1e-3, 1.0, 1e30])
def test_an_element_moves_by_half_a_step_of_its_row_or_less(size: float) -> None:
    x = torch.randn(50, 37) * torch.logspace(-3, 3, 50)[:, None] * size
    actual, scale = quantize_rows(x)
    error = (x.double() - actual.double() * scale.double()).abs()
    assert (error <= scale.double() * 0.50001).all()
    assert actual.abs().amax(1).eq(127).all()


@pytest.mark.parametrize("shape", [(1, 5, 3), (9, 63, 17), (70, 256, 260), (4, 1100, 7)], ids=str)
def test_the_error_of_a_linear_map_is_what_its_scales_allow(
    shape: tuple[int, int, int],
) -> None:
    rows, inputs, outputs = shape
    x, w, b = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    actual = int8_linear(x, int8_weight(w), b).double()
    of_x, of_w = scales_beside(x.double(), w.double())
    allowed = (
        of_x * w.double().abs().sum(1)[None]
        + of_w * x.double().abs().sum(1, keepdim=True)
        + inputs * of_x * of_w
    )
    error = (actual - (x.double() @ w.double().t() + b)).abs()
    assert (error <= allowed + 1e-4).all()
    assert error.max() > 1e-4, "nothing was rounded"


def test_a_row_does_not_depend_on_the_others_however_many_there_are() -> None:
    x, b = torch.randn(320, 256) * torch.logspace(-4, 4, 320)[:, None], torch.randn(300)
    weight = int8_weight(torch.randn(300, 256))
    together = int8_linear(x, weight, b)
    for rows in (slice(5, 6), slice(3, 5), slice(10, 74), slice(100, 307)):
        assert torch.equal(int8_linear(x[rows], weight, b), together[rows])


def test_zeros_give_the_bias_and_huge_inputs_stay_finite() -> None:
    weight, b = int8_weight(torch.randn(6, 8)), torch.randn(6)
    x = torch.zeros(4, 8)
    x[1], x[2] = 1e35, -1e-35
    actual = int8_linear(x, weight, b)
    assert torch.equal(actual[0], b) and torch.equal(actual[3], b)
    assert actual.isfinite().all()
    assert torch.equal(int8_linear(x, int8_weight(torch.zeros(6, 8)), b), b.expand(4, 6))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_spoils_only_its_row(bad: float) -> None:
    x, w, b = torch.randn(70, 256), torch.randn(300, 256), torch.randn(300)
    expected = int8_linear(x, int8_weight(w), b)
    others = torch.arange(70) != 3
    spoilt = x.clone()
    spoilt[3, 5] = bad
    actual = int8_linear(spoilt, int8_weight(w), b)
    assert not actual[3].isfinite().any()
    assert torch.equal(actual[others], expected[others])
    w[7, 0] = bad  # an output whose weights diverged
    actual = int8_linear(x, int8_weight(w), b)
    assert not actual[:, 7].isfinite().any()
    assert actual[:, :7].isfinite().all()


def test_a_kernel_that_is_missing_or_wrong_is_not_used() -> None:
    def missing(x: Tensor, weight: Int8Weight) -> Tensor:
        return torch.ops.onednn.no_such_kernel(x)

    def saturating(x: Tensor, weight: Int8Weight) -> Tensor:
        sums = (x[:, :, None].int() * weight.columns[None].int()).clamp(-16000, 16000).sum(1)
        return sums.float() * weight.scale

    assert not is_exact(missing)
    assert not is_exact(saturating)
    assert is_exact(float_product)


def test_without_integer_kernels_the_result_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, w, b = torch.randn(128, 256), torch.randn(256, 256), torch.randn(256)
    expected = int8_linear(x, int8_weight(w), b)
    monkeypatch.setattr(int8, "is_exact", lambda product: False)
    weight = int8_weight(w)
    assert weight.packed is None
    assert torch.equal(int8_linear(x, weight, b), expected)

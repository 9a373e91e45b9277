"""Linear maps in 8-bit integers, compared with sums in int64 and the bounds of rounding."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from seq2seq.decoding.native import quantization
from seq2seq.decoding.native.quantization import (
    Int8Linear,
    Int8Matrix,
    float_product,
    int_mm_product,
    is_exact,
    packed_product,
)
from seq2seq.functional.int8 import quantize_rows

Product = Callable[[Tensor, Int8Matrix], Tensor]

# Rows, inputs, outputs; the last two have sums that float32 cannot hold, and one row.
SHAPES = [
    (1, 1, 1),
    (17, 1, 3),
    (1, 1, 64),
    (2, 3, 5),
    (7, 64, 33),
    (65, 100, 301),
    (320, 256, 256),
    (3, 1100, 2),
    (1, 9, 4),
]


def integers(*shape: int) -> Tensor:
    return torch.randint(-127, 128, shape, dtype=torch.int8)


def layer(weight: Tensor, bias: Tensor) -> Int8Linear:
    linear = nn.Linear(*reversed(weight.shape))
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    return Int8Linear(linear)


def any_product(x: Tensor, matrix: Int8Matrix) -> Tensor:
    return matrix.product(x)


def scales_beside(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Half a step of each row of x (R, 1) and of the weight (1, O): the largest rounding error."""
    return x.abs().amax(1, keepdim=True) / 254, weight.abs().amax(1)[None] / 254


@pytest.mark.parametrize("product", [packed_product, int_mm_product, float_product, any_product])
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
    matrix = Int8Matrix.of(w, scale, use_packed=is_exact(packed_product))
    expected = (x.long()[:, None] * w.long()[None]).sum(-1)
    assert torch.equal(product(x, matrix), expected.float() * scale)


@pytest.mark.parametrize("size", [1e-20, 1e-3, 1.0, 1e30])
def test_rounding_moves_an_element_by_at_most_half_a_step(size: float) -> None:
    x = torch.randn(50, 37) * torch.logspace(-3, 3, 50)[:, None] * size
    actual, scale = quantize_rows(x)
    error = (x.double() - actual.double() * scale.double()).abs()
    assert (error <= scale.double() * 0.50001).all()
    assert actual.abs().amax(1).eq(127).all()


def test_values_beyond_a_given_scale_are_clipped() -> None:
    x = torch.tensor([[0.1, -0.25, 9.0], [-99.0, 0.0, 0.24]])
    actual, scales = quantize_rows(x, scale=0.1)
    assert actual.tolist() == [[1, -2, 90], [-127, 0, 2]] and scales.eq(0.1).all()
    _, scales = quantize_rows(torch.tensor([[1.0, torch.nan], [torch.inf, 0.0], [1.0, 1.0]]), 0.1)
    assert scales.isfinite().flatten().tolist() == [False, False, True]


@pytest.mark.parametrize("shape", [(1, 5, 3), (9, 63, 17), (70, 256, 260), (4, 1100, 7)], ids=str)
def test_the_error_of_a_linear_map_is_what_its_scales_allow(shape: tuple[int, int, int]) -> None:
    rows, inputs, outputs = shape
    x, w, b = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    actual = layer(w, b)(x).double()
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
    linear = layer(torch.randn(300, 256), b)
    together = linear(x)
    for rows in (slice(5, 6), slice(3, 5), slice(10, 74), slice(100, 307)):
        assert torch.equal(linear(x[rows]), together[rows])


def test_zeros_give_the_bias_and_huge_inputs_stay_finite() -> None:
    b = torch.randn(6)
    x = torch.zeros(4, 8)
    x[1], x[2] = 1e35, -1e-35
    actual = layer(torch.randn(6, 8), b)(x)
    assert torch.equal(actual[0], b) and torch.equal(actual[3], b)
    assert actual.isfinite().all()
    assert torch.equal(layer(torch.zeros(6, 8), b)(x), b.expand(4, 6))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_value_that_is_not_finite_spoils_only_its_row(bad: float) -> None:
    x, w, b = torch.randn(70, 256), torch.randn(300, 256), torch.randn(300)
    expected = layer(w, b)(x)
    others = torch.arange(70) != 3
    spoilt = x.clone()
    spoilt[3, 5] = bad
    actual = layer(w, b)(spoilt)
    assert not actual[3].isfinite().any()
    assert torch.equal(actual[others], expected[others])
    w[7, 0] = bad  # an output whose weights diverged
    actual = layer(w, b)(x)
    assert not actual[:, 7].isfinite().any()
    assert actual[:, :7].isfinite().all()


def test_a_kernel_that_is_missing_or_wrong_is_not_used() -> None:
    def missing(x: Tensor, matrix: Int8Matrix) -> Tensor:
        return torch.ops.onednn.no_such_kernel(x)

    def saturating(x: Tensor, matrix: Int8Matrix) -> Tensor:
        sums = (x[:, :, None].int() * matrix.columns[None].int()).clamp(-16000, 16000).sum(1)
        return sums.float() * matrix.scale

    assert not is_exact(missing)
    assert not is_exact(saturating)
    assert is_exact(float_product)


def test_without_integer_kernels_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, b = torch.randn(128, 256), torch.randn(256, 256), torch.randn(256)
    expected = layer(w, b)(x)
    monkeypatch.setattr(quantization, "is_exact", lambda product: False)
    linear = layer(w, b)
    assert linear.matrix.packed is None
    assert torch.equal(linear(x), expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 3, 5), (2, 0, 5), (0, 5)], ids=str)
def test_an_integer_layer_takes_and_gives_the_shapes_and_types_of_a_linear(
    shape: tuple[int, ...], bias: bool
) -> None:
    linear = nn.Linear(5, 7, bias=bias)
    layer = Int8Linear(linear)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.randn(shape).to(dtype).requires_grad_()
        actual, expected = layer(x), linear.to(dtype)(x)
        assert actual.shape == expected.shape and actual.dtype == dtype
        assert not actual.requires_grad
        torch.testing.assert_close(actual, expected.detach(), atol=0.1, rtol=0.1)


def test_reading_the_matrix_gives_the_rounded_one() -> None:
    linear = nn.Linear(16, 9)
    layer = Int8Linear(linear)
    step = linear.weight.detach().abs().amax(1, keepdim=True) / 127
    assert ((layer.weight - linear.weight).abs() <= step * 0.50001).all()
    x = torch.eye(16)  # values that rounding leaves unchanged
    torch.testing.assert_close(layer(x), x @ layer.weight.t() + linear.bias)


def test_an_integer_layer_saves_nothing_and_leaves_the_linear_as_it_is() -> None:
    linear = nn.Linear(4, 3)
    before = linear.weight.detach().clone()
    layer = Int8Linear(linear)
    layer(torch.randn(2, 4))
    assert not layer.state_dict() and not list(layer.parameters())
    assert torch.equal(linear.weight, before)

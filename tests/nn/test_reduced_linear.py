"""The layers that replace `nn.Linear` when decoding in fewer bits."""

import pytest
import torch
from torch import nn

from seq2seq.nn.packed import Int8Linear, PackedLinear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 3, 5), (2, 0, 5), (0, 5)], ids=str)
def test_an_integer_layer_takes_and_gives_the_shapes_and_types_of_a_linear(
    shape: tuple[int, ...], bias: bool
) -> None:
    linear = nn.Linear(5, 7, bias=bias)
    layer = Int8Linear.of(linear)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.randn(shape).to(dtype).requires_grad_()
        actual, expected = layer(x), linear.to(dtype)(x)
        assert actual.shape == expected.shape and actual.dtype == dtype
        assert not actual.requires_grad
        torch.testing.assert_close(actual, expected.detach(), atol=0.1, rtol=0.1)


def test_reading_the_matrix_gives_the_rounded_one() -> None:
    linear = nn.Linear(16, 9)
    layer = Int8Linear.of(linear)
    step = linear.weight.detach().abs().amax(1, keepdim=True) / 127
    assert ((layer.weight - linear.weight).abs() <= step * 0.50001).all()
    x = torch.eye(16)  # values that rounding leaves unchanged
    torch.testing.assert_close(layer(x), x @ layer.weight.t() + linear.bias)


def test_an_integer_layer_saves_nothing_and_leaves_the_linear_as_it_is() -> None:
    linear = nn.Linear(4, 3)
    before = linear.weight.detach().clone()
    layer = Int8Linear.of(linear)
    layer(torch.randn(2, 4))
    assert not layer.state_dict() and not list(layer.parameters())
    assert torch.equal(linear.weight, before)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 32), (70, 32), (2, 3, 32), (0, 32)], ids=str)
def test_a_packed_layer_is_the_linear_in_bfloat16(shape: tuple[int, ...], bias: bool) -> None:
    linear = nn.Linear(32, 24, bias=bias).bfloat16().requires_grad_(False)
    x = torch.randn(shape).bfloat16()
    actual = PackedLinear.of(linear)(x)
    exact = nn.functional.linear(
        x.double(), linear.weight.double(), linear.bias.double() if bias else None
    )
    assert actual.dtype == torch.bfloat16
    # Half a unit of 8 significant bits, and the order of sums in float32.
    torch.testing.assert_close(actual.double(), exact, atol=1e-5, rtol=2**-8)


def test_where_there_is_no_packed_kernel_the_linear_stays() -> None:
    linear = nn.Linear(4, 3, device="meta", dtype=torch.bfloat16)
    assert PackedLinear.of(linear) is linear

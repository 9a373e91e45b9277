"""The layer that replaces `nn.Linear` when decoding in bfloat16."""

import pytest
import torch
from torch import nn

from seq2seq.decoding.precision import PackedLinear


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

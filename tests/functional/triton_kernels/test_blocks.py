"""Blocks are read in the type of sums, multiplied, and written where the tensor is."""

import pytest
import torch
from helpers.builders import assert_equal

triton = pytest.importorskip(
    "triton", minversion="3.6", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

import triton.language as tl  # noqa: E402

from seq2seq.functional.triton.blocks import load, product, rows_of, store  # noqa: E402
from seq2seq.functional.triton.launch import types_of  # noqa: E402


@triton.jit
def add_one(x, out, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    i, d = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    store(out, load(x, 1, 2, i, d, WIDE) + 1, 0, 0, i, d)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_blocks_are_widened_and_end_in_zeros(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randn(2, 5, 3, 7, device=device).to(dtype).transpose(1, 2)
    out = torch.full((1, 1, 8, 16), torch.nan, device=device)
    add_one[(1,)](rows_of(x), rows_of(out[:, :, :, 1:14]), types_of(dtype).sum, 16)
    expected = torch.full_like(out, torch.nan)
    expected[..., 1:14] = 1
    expected[0, 0, :5, 1:8] += x[1, 2].float()
    torch.testing.assert_close(out, expected, equal_nan=True)


@triton.jit
def multiply(a, b, c, ROWS: tl.constexpr, WIDE: tl.constexpr, NARROW: tl.constexpr):
    i, d = tl.arange(0, ROWS), tl.arange(0, 16)
    block = product(load(a, 0, 0, i, d, WIDE), load(b, 0, 0, d, d, WIDE), NARROW)
    store(c, block, 0, 0, i, d)


@pytest.mark.parametrize("rows", [4, 16])
def test_small_and_large_blocks_are_multiplied(rows: int, device: torch.device) -> None:
    a, b = torch.randn(1, 1, rows, 16, device=device), torch.randn(1, 1, 16, 16, device=device)
    types, c = types_of(a.dtype), torch.empty_like(a)
    multiply[(1,)](rows_of(a), rows_of(b), rows_of(c), rows, types.sum, types.product)
    assert_equal(c, a @ b)

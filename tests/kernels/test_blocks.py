"""Blocks are loaded in the type of sums, whatever the type of the tensor."""

import pytest
import torch
from helpers import assert_equal
from torch import Tensor

triton = pytest.importorskip("triton", reason="pip install 'seq2seq-attention-zoo[triton]'")

import triton.language as tl  # noqa: E402

from seq2seq.kernels.blocks import load  # noqa: E402
from seq2seq.kernels.launch import types_of  # noqa: E402


@triton.jit
def add_one(x, out, count, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, load(x + i, i < count, WIDE) + 1, mask=i < BLOCK)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_blocks_are_widened_and_end_in_zeros(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randn(13, device=device).to(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    out: Tensor = torch.full((16,), torch.nan, dtype=wide, device=device)
    add_one[(1,)](x, out, len(x), types_of(dtype).sum, 16)
    assert_equal(out, torch.cat([x.to(wide), x.new_zeros(3, dtype=wide)]) + 1)

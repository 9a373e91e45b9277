"""Blocks of tensors, as all kernels read, multiply and write them."""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class Rows(NamedTuple):
    """A tensor (B, heads, rows, width) in a kernel: where it begins, its strides and its shape."""

    data: Any
    strides: Any
    heads: Any
    rows: Any
    width: Any


def rows_of(x: Tensor) -> Rows:
    """A tensor of four axes as a kernel takes it."""
    return Rows(x, x.stride(), *x.shape[1:])


@triton.jit
def pointers(x, b, h, i, d):
    """The addresses of rows i and columns d of a head; tensors may have more than 2^31 numbers."""
    start = tl.cast(b, tl.int64) * x.strides[0] + tl.cast(h, tl.int64) * x.strides[1]
    return x.data + start + i[:, None] * x.strides[2] + d[None, :] * x.strides[3]


@triton.jit
def load(x, b, h, i, d, WIDE: tl.constexpr):
    """Rows i and columns d of a head in the type of sums, zeros outside of the tensor.

    Every load is widened at once: the interpreter computes wrongly with bfloat16, without a word.
    """
    inside = (i[:, None] < x.rows) & (d[None, :] < x.width)
    return tl.load(pointers(x, b, h, i, d), mask=inside, other=0.0).to(WIDE)


@triton.jit
def store(x, block, b, h, i, d):
    """Write a block, but for what is outside of the tensor."""
    inside = (i[:, None] < x.rows) & (d[None, :] < x.width)
    tl.store(pointers(x, b, h, i, d), block.to(x.data.dtype.element_ty), mask=inside)


@triton.jit
def product(a, b, NARROW: tl.constexpr):
    """The product of two matrices, by the units for it where the matrices are large enough."""
    if a.shape[0] >= 16 and a.shape[1] >= 16 and b.shape[1] >= 16:
        c = tl.dot(a.to(NARROW), b.to(NARROW), input_precision="ieee", out_dtype=a.dtype)
    else:
        c = tl.sum(a[:, :, None] * b[None, :, :], 1)
    return c

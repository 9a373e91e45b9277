"""Reading, multiplying and writing blocks of tensors, for all kernels."""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class Rows(NamedTuple):
    """A tensor (B, heads, rows, width) in a kernel: its data pointer, strides and shape.

    A tuple among these fields would be a tuple in a tuple, of which Triton 3.6 loses constants.
    """

    data: Any
    stride_b: Any
    stride_h: Any
    stride_i: Any
    stride_d: Any
    heads: Any
    rows: Any
    width: Any


def rows_of(x: Tensor) -> Rows:
    """Describe a tensor with four axes for a kernel."""
    return Rows(x, *x.stride(), *x.shape[1:])


@triton.jit
def pointers(x, b, h, i, d):
    """The addresses of rows i and columns d of a head, in 64 bits for more than 2^31 elements."""
    start = tl.cast(b, tl.int64) * x.stride_b + tl.cast(h, tl.int64) * x.stride_h
    return x.data + start + i[:, None] * x.stride_i + d[None, :] * x.stride_d


@triton.jit
def load(x, b, h, i, d, WIDE: tl.constexpr):
    """Load rows i and columns d of a head in the type of sums, with zeros outside the tensor.

    Loads are converted immediately, because the interpreter silently computes wrong results with
    bfloat16.
    """
    inside = (i[:, None] < x.rows) & (d[None, :] < x.width)
    return tl.load(pointers(x, b, h, i, d), mask=inside, other=0.0).to(WIDE)


@triton.jit
def store(x, block, b, h, i, d):
    """Write the part of a block that is inside the tensor."""
    inside = (i[:, None] < x.rows) & (d[None, :] < x.width)
    tl.store(pointers(x, b, h, i, d), block.to(x.data.dtype.element_ty), mask=inside)


@triton.jit
def product(a, b, NARROW: tl.constexpr):
    """The product of two matrices, by the GPU's matrix units if the matrices are large enough."""
    if a.shape[0] >= 16 and a.shape[1] >= 16 and b.shape[1] >= 16:
        c = tl.dot(a.to(NARROW), b.to(NARROW), input_precision="ieee", out_dtype=a.dtype)
    else:
        c = tl.sum(a[:, :, None] * b[None, :, :], 1)
    return c

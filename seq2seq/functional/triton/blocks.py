"""Reading, multiplying and writing blocks of tensors, for all kernels."""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class Rows(NamedTuple):
    """A tensor (B, heads, rows, width) in a kernel: its data pointer, strides and shape.

    The strides are fields of their own because Triton 3.6 does not compile tuples within tuples.
    """

    data: Any
    b_stride: Any
    h_stride: Any
    i_stride: Any
    d_stride: Any
    heads: Any
    rows: Any
    width: Any


def rows_of(x: Tensor | None) -> Rows | None:
    """Describe a tensor for a kernel, with leading axes of length 1 if it has fewer than four."""
    if x is None:
        return None
    x = x[(None,) * (4 - x.ndim)]
    return Rows(x, *x.stride(), *x.shape[1:])


@triton.jit
def pointers(x, b, h, i, d):
    """The addresses of rows i and columns d of a head, in 64 bits for more than 2^31 elements."""
    start = tl.cast(b, tl.int64) * x.b_stride + tl.cast(h, tl.int64) * x.h_stride
    return x.data + start + i[:, None] * x.i_stride + d[None, :] * x.d_stride


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

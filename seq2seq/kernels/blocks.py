"""Blocks of numbers, as all kernels read them."""

import triton
import triton.language as tl


@triton.jit
def load(pointers, inside, WIDE: tl.constexpr):
    """A block in the type of sums, zeros outside of the tensor.

    Every load is widened at once: the interpreter computes wrongly with bfloat16, without a word.
    """
    return tl.load(pointers, mask=inside, other=0.0).to(WIDE)

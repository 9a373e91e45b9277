"""Compile the kernel of paged decoding for a capability: python compile_paged.py 90 bfloat16 64

With one split and several, with mask and bias and without.
"""

import sys
from itertools import product

import torch
from compile_only import compile_only

from seq2seq.functional.triton import paged


def compile_paged(dtype: torch.dtype, width: int, splits: int, rich: bool) -> None:
    """The kernels for heads of one width, of a row whose keys are in that many splits."""
    N, H, G, T, S = 2, 4, 2, 3, splits * paged.SPLIT
    q = torch.empty(N, H, T, width, dtype=dtype)
    k = torch.empty(G, 2 * N * S, width, dtype=dtype)
    slots, lengths = torch.zeros(N, S, dtype=torch.long), torch.full((N,), S)
    mask = torch.ones(N, 1, T, S, dtype=torch.bool) if rich else None
    bias = torch.empty(H, T, S, dtype=dtype) if rich else None
    paged.paged_attention(q, k, k, slots, lengths, mask=mask, bias=bias)


def main(capability: int, dtype: torch.dtype, widths: list[int]) -> None:
    paged.check_pages = lambda *given: None  # nothing will run
    with compile_only(capability) as compiled:
        for width, splits, rich in product(widths, (1, 2), (True, False)):
            compile_paged(dtype, width, splits, rich)
    for kernel in compiled:
        print(kernel.name, len(kernel.asm["cubin"]))


if __name__ == "__main__":
    main(int(sys.argv[1]), getattr(torch, sys.argv[2]), [int(width) for width in sys.argv[3:]])

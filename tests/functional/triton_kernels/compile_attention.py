"""Compile the kernels of attention for a capability: python compile_attention.py 90 bfloat16 64

With several widths, without mask, bias, dropout and causality too.
"""

import sys
from itertools import product

import torch
from compile_only import compile_only

from seq2seq.functional.flash import FlashInputs
from seq2seq.functional.online_softmax import Outputs
from seq2seq.functional.tiles import TileSize, Tiling
from seq2seq.functional.triton.backward import differentiate_blocks
from seq2seq.functional.triton.forward import attend_blocks
from seq2seq.functional.triton.launch import sizes_of
from seq2seq.functional.triton_flash import tiles_in_kernels


def compile_attention(dtype: torch.dtype, width: int, additive: bool, rich: bool) -> None:
    """Every kernel for heads of one width: plain, or with a mask, a bias, dropout and causality."""
    B, H, G, T, S = 2, 4, 2, 32, 48
    q, v = torch.empty(B, H, T, width, dtype=dtype), torch.empty(B, G, S, width, dtype=dtype)
    k = torch.empty(B, H if additive else G, S, width, dtype=dtype)
    u = torch.empty(H, width, dtype=dtype) if additive else None
    bias = torch.empty(1, H, T, S, dtype=dtype) if rich else None
    mask = torch.empty(B, 1, 1, S, dtype=torch.bool) if rich else None
    tiling = Tiling(0.1, rich, 0.1 * rich, 1 << 40, TileSize(B, T, S))
    given = FlashInputs(tiling, q, k, v, u, bias, mask)
    sizes, tiles = sizes_of(q, v, additive), tiles_in_kernels(given)
    out, lse = attend_blocks(tiling.scale, u, q, k, v, tiles, sizes)
    outputs = Outputs(out, lse, out)
    differentiate_blocks(tiling.scale, u, q, k, v, outputs, tiles, bias, sizes)


def main(capability: int, dtype: torch.dtype, widths: list[int]) -> None:
    with compile_only(capability) as compiled:
        for width, additive, rich in product(widths, (False, True), (True, False)[: len(widths)]):
            compile_attention(dtype, width, additive, rich)
    for kernel in compiled:
        print(kernel.name, len(kernel.asm["cubin"]))


if __name__ == "__main__":
    main(int(sys.argv[1]), getattr(torch, sys.argv[2]), [int(width) for width in sys.argv[3:]])

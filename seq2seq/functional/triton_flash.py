"""Flash attention through kernels in Triton. Who imports this module imports Triton.

The formulas are those of `flash`, whose tiles give the same results, dropout included.
"""

from typing import Any

import torch
from torch import Tensor

from seq2seq.functional.dropout import divide, keep_threshold
from seq2seq.functional.flash import attend_in_tiles, draw_seed, refuse_second_derivatives
from seq2seq.functional.shapes import check
from seq2seq.functional.tiles import TileSize, Tiling
from seq2seq.functional.triton.backward import differentiate_blocks
from seq2seq.functional.triton.forward import attend_blocks
from seq2seq.functional.triton.launch import check_tensor, sizes_of
from seq2seq.functional.triton.scores import score_arguments
from seq2seq.functional.triton.tiles import TileArguments, dropout_arguments, tile_arguments


def triton_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """`flash_attention` in one kernel, and its gradient in two, or three with a bias that learns.

    Args, returns and raises: as `flash_attention`; and ConfigError for tensors that are not on a
        GPU, unless Triton's interpreter was chosen.
    """
    check("B H T D, B G S D, B G S M", q=q, k=k, v=v)
    # One tile, which the kernels cut by themselves.
    size = TileSize(len(q), q.shape[2], k.shape[2])
    tiling = Tiling(scale, causal, dropout, draw_seed(dropout), size)
    return attend_in_tiles(q, k, v, None, mask, bias, tiling, TritonFlash)


def triton_additive_attention(
    wq: Tensor,
    wk: Tensor,
    u: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """`flash_additive_attention` in the same kernels, with the hidden layer of a tile in registers.

    Args, returns and raises: as `flash_additive_attention` and `triton_attention`.
    """
    check("B H T A, B H S A, H A, B G S M", wq=wq, wk=wk, u=u, v=v)
    size = TileSize(len(wq), wq.shape[2], wk.shape[2])
    tiling = Tiling(1.0, causal, dropout, draw_seed(dropout), size)
    return attend_in_tiles(wq, wk, v, u, mask, bias, tiling, TritonFlash)


class TritonFlash(torch.autograd.Function):
    """`Flash` in kernels. It saves its inputs, out and lse only."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        u: Tensor | None,
        bias: Tensor | None,
        mask: Tensor | None,
        tiling: Tiling,
    ) -> Tensor:
        check_tensor(q)
        sizes = sizes_of(q, v, u is not None)
        tiles = tiles_in_kernels(q, k, mask, bias, tiling)
        with torch.cuda.device_of(q):
            out, lse = attend_blocks(score_arguments(tiling.scale, u), q, k, v, tiles, sizes)
        ctx.save_for_backward(q, k, v, u, bias, mask, out, lse)
        ctx.tiling = tiling
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        q, k, v, u, bias, mask, out, lse = ctx.saved_tensors
        sizes = sizes_of(q, v, u is not None)
        tiles = tiles_in_kernels(q, k, mask, bias, ctx.tiling)
        learnt = bias if ctx.needs_input_grad[4] else None
        score = score_arguments(ctx.tiling.scale, u)
        with torch.cuda.device_of(q):
            slopes = differentiate_blocks(score, q, k, v, (out, lse, dout), tiles, learnt, sizes)
        du = None if slopes.u is None else slopes.u.to(u.dtype)
        dbias = None if slopes.bias is None else slopes.bias.to(bias.dtype)
        return slopes.q, slopes.k, slopes.v, du, dbias, None, None


def tiles_in_kernels(
    q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None, tiling: Tiling
) -> TileArguments:
    """The tiles of all scores."""
    p = tiling.dropout
    dropout = dropout_arguments(p, keep_threshold(p), divide(tiling.seed)) if p > 0 else None
    return tile_arguments((*q.shape[:3], k.shape[2]), tiling.causal, mask, bias, dropout)

"""Flash attention in plain PyTorch: softmax attention that never holds all scores in memory.

For dot products `fused_attention` computes the same faster, in one torch kernel. This version also
avoids T x S memory where that kernel cannot: with dropout, with a learnt bias, and with a score
that has a hidden layer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.online_softmax import Inputs, Outputs, fold, gradient, online_softmax
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast
from seq2seq.functional.tile_scores import AdditiveScore, DotScore, TileScore
from seq2seq.functional.tiles import Tiles, TileSize, Tiling, take_sentences

# The fastest sizes measured on a CPU, with few heads as well as with many.
BLOCK_Q, BLOCK_K = 128, 512
# Elements of a hidden layer that fit into the L2 cache of a CPU core (CACHED), and enough elements
# to keep other devices busy (CHUNK).
ADDITIVE_BLOCK_Q, CACHED, CHUNK = 32, 2**19, 2**24
# If the hidden layer has at most this many elements, it is faster to keep it for the gradient.
FEW_ELEMENTS = 2**22


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
    kernels: "FlashKernels | None" = None,
) -> Tensor:
    """softmax(scale q k^T + bias) v, one tile of scores at a time, forward and backward.

    The memory kept for the gradient grows with T + S, not with T S. Sums are in float32 at least.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.   v: (B, G, S, M).
        scale: factor of the scores; 1 / sqrt(D) for scaled dot products.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (B, H, T, S); it may need a gradient.
        causal: True if the queries are the last T of S positions, and each reads only itself and
            earlier positions.
        dropout: probability of dropping a weight; pass 0 outside training.
        block_q: queries of a tile.   block_k: keys of a tile.
        kernels: another implementation of the same formulas, which ignores these sizes of tiles;
            None = torch.

    Returns: (B, H, T, M), zeros for a query that may attend to nothing. The result can be
        differentiated only once.
    Raises: ValueError if shapes disagree, G does not divide H, or a block is empty.
    Source: Dao et al. 2022, arXiv:2205.14135; Milakov, Gimelshein 2018, arXiv:1805.02867.
    """
    sizes = check("B H T D, B G S D, B G S M", q=q, k=k, v=v)
    if block_q < 1 or block_k < 1:
        raise ValueError(f"tiles of {block_q} queries and {block_k} keys: both must be at least 1")
    # No tile is larger than all scores.
    B, T, S = (max(1, sizes[letter]) for letter in "BTS")
    size = TileSize(B, min(block_q, T), min(block_k, S))
    tiling = Tiling(scale, causal, dropout, draw_seed(dropout), size)
    return attend_in_tiles(FlashInputs(tiling, q, k, v, None, bias, mask), kernels or TILES)


def flash_additive_attention(
    wq: Tensor,
    wk: Tensor,
    u: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    max_elements: int | None = None,
    kernels: "FlashKernels | None" = None,
) -> Tensor:
    """softmax_j(u . tanh(wq_i + wk_j) + bias) v, one tile of the hidden layer at a time.

    Neither T x S x A nor T x S numbers are ever held, forward or backward; the memory kept for the
    gradient grows with T + S. Sums are in float32 at least.

    Args:
        wq: Wq q, (B, H, T, A).   wk: Wk k + b, (B, H, S, A).   u: (H, A).
        v: (B, G, S, M), G divides H.
        mask, bias, causal, dropout, kernels: same as in `flash_attention`.
        max_elements: most elements of the hidden layer in a tile (a tile has at least one query and
            one key); None = the fastest number.

    Returns and raises: same as `flash_attention`.
    Source: Bahdanau et al. 2015, arXiv:1409.0473; Dao et al. 2022, arXiv:2205.14135.
    """
    sizes = check("B H T A, B H S A, H A, B G S M", wq=wq, wk=wk, u=u, v=v)
    if max_elements is None:
        max_elements = CACHED if wq.device.type == "cpu" else CHUNK
    B, H, T, A, S = (max(1, sizes[letter]) for letter in "BHTAS")
    pairs = max(1, max_elements // (H * A))
    block_q = min(pairs, T, ADDITIVE_BLOCK_Q)
    block_k = min(pairs // block_q, S)
    size = TileSize(min(pairs // (block_q * block_k), B), block_q, block_k)
    tiling = Tiling(1.0, causal, dropout, draw_seed(dropout), size)
    return attend_in_tiles(FlashInputs(tiling, wq, wk, v, u, bias, mask), kernels or TILES)


def use_flash_additive(wq: Tensor, wk: Tensor) -> bool:
    """True if `flash_additive_attention` is fastest for wq (B, H, T, A) and wk (B, H, S, A).

    This was measured on CPUs only. A single query, as in a step of an RNN, has a hidden layer no
    larger than the keys: reading it costs less than computing it again.
    """
    T = wq.shape[2]
    return wq.device.type == "cpu" and T > 1 and T * wk.numel() > FEW_ELEMENTS


def draw_seed(dropout: float) -> int:
    """Draw the seed of the dropout from torch's generator, so that `manual_seed` fixes it too."""
    return int(torch.randint(2**62, ())) if dropout > 0 else 0


class FlashInputs(NamedTuple):
    """Inputs of attention, all of one type. With u the score is additive, else a dot product."""

    tiling: Tiling
    q: Tensor
    k: Tensor
    v: Tensor
    u: Tensor | None
    bias: Tensor | None  # four axes, like the mask
    mask: Tensor | None


class FlashSlopes(NamedTuple):
    """Gradients of the inputs; those of u and the bias are in the wider type used for sums."""

    q: Tensor
    k: Tensor
    v: Tensor
    u: Tensor | None
    bias: Tensor | None


class FlashKernels(NamedTuple):
    """The two functions that compute attention and its gradient."""

    # Returns out (B, H, T, M), and lse (B, H, T, 1) in the type of sums.
    attend: Callable[[FlashInputs], tuple[Tensor, Tensor]]
    # Takes out, lse and the gradient of out, and True if the bias needs a gradient.
    differentiate: Callable[[FlashInputs, Outputs, bool], FlashSlopes]


def attend_in_tiles(given: FlashInputs, kernels: FlashKernels) -> Tensor:
    """Attention by `kernels`, for inputs of mixed types and any broadcastable bias and mask."""
    tiling, q, k, v, u, bias, mask = given
    shape = (*q.shape[:3], k.shape[2])
    mask, bias = with_four_axes("mask", mask, shape), with_four_axes("bias", bias, shape)
    # Under autocast an RNN's states are wider than its projections.
    dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
    apply: Callable[..., Tensor] = Flash.apply
    return apply(kernels, tiling, q.to(dtype), k.to(dtype), v.to(dtype), u, bias, mask)


class Flash(torch.autograd.Function):
    """Attention whose gradient recomputes the weights from the inputs, `out` and `lse`."""

    @staticmethod
    def forward(ctx: Any, kernels: FlashKernels, tiling: Tiling, *tensors: Any) -> Tensor:
        out, lse = kernels.attend(FlashInputs(tiling, *tensors))
        ctx.save_for_backward(*tensors, out, lse)
        ctx.kernels, ctx.tiling = kernels, tiling
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "flash attention can be differentiated only once. For second derivatives take "
                "attn.kernel=explicit"
            )
        *tensors, out, lse = ctx.saved_tensors
        bias_learns = ctx.needs_input_grad[6]
        given, outputs = FlashInputs(ctx.tiling, *tensors), Outputs(out, lse, dout)
        slopes = ctx.kernels.differentiate(given, outputs, bias_learns)
        typed = (
            None if slope is None else slope.to(x.dtype)
            for slope, x in zip(slopes, tensors, strict=False)
        )
        return None, None, *typed, None


def attend_by_tiles(given: FlashInputs) -> tuple[Tensor, Tensor]:
    """Attention by `online_softmax`, a few sentences at a time."""
    tiling, q, k, v, u, _, _ = given
    out = q.new_empty(*q.shape[:3], v.shape[3])
    lse = upcast(q.new_empty(0)).new_empty(*q.shape[:3], 1)
    score = score_of(tiling.scale, u, None, lse.dtype)
    with torch.autocast(q.device.type, enabled=False):
        for part in tiling.parts(len(q)):
            inputs = fold_inputs(score, q[part], k[part], v[part])
            part_out, part_lse = online_softmax(inputs, tiles_of(part, given))
            out[part], lse[part] = part_out.view_as(out[part]), part_lse.view_as(lse[part])
    return out, lse


def differentiate_by_tiles(given: FlashInputs, outputs: Outputs, bias_learns: bool) -> FlashSlopes:
    """The gradient of `attend_by_tiles`."""
    tiling, q, k, v, u, bias, _ = given
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    dtype = outputs.lse.dtype
    du = None if u is None else torch.zeros_like(u, dtype=dtype)
    dbias = torch.zeros_like(bias, dtype=dtype) if bias is not None and bias_learns else None
    score = score_of(tiling.scale, u, du, dtype)
    with torch.autocast(q.device.type, enabled=False):
        for part in tiling.parts(len(q)):
            inputs = fold_inputs(score, q[part], k[part], v[part])
            of_part = Outputs(*(fold(x[part], v.shape[1]) for x in outputs))
            tiles = tiles_of(part, given)
            slopes = gradient(inputs, of_part, tiles, take_sentences(dbias, part))
            for dx, slope in zip((dq, dk, dv), slopes, strict=True):
                dx[part] = slope.view(dx[part].shape)
    return FlashSlopes(dq, dk, dv, du, dbias)


TILES = FlashKernels(attend_by_tiles, differentiate_by_tiles)


def score_of(scale: float, u: Tensor | None, du: Tensor | None, dtype: torch.dtype) -> TileScore:
    """A dot product if u is None, else an additive score that adds the gradient of u to `du`."""
    return DotScore(scale) if u is None else AdditiveScore(u.to(dtype), du)


def fold_inputs(score: TileScore, q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    """Reshape inputs (B, heads, ...) so that query heads are grouped by the key head they read."""
    G = k.shape[1]
    return Inputs(score, fold(q, G), fold(k, G)[:, 0], fold(v, v.shape[1])[:, 0])


def tiles_of(part: slice, given: FlashInputs) -> Tiles:
    """The tiles of the scores of some sentences."""
    tiling, q, k, _, _, bias, mask = given
    shape = (len(q[part]), *q.shape[1:3], k.shape[2])
    bias, mask = take_sentences(bias, part), take_sentences(mask, part)
    return Tiles(shape, tiling, bias, mask, part.start)


def with_four_axes(name: str, x: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """Give a bias or mask four axes. Raises: ValueError if it does not broadcast to `shape`."""
    if x is None:
        return None
    if x.dim() > 4 or any(
        size not in (1, whole)
        for size, whole in zip(reversed(x.shape), reversed(shape), strict=False)
    ):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}; it cannot be broadcast to (B, H, T, S) = {shape}"
        )
    return x.reshape((1,) * (4 - x.dim()) + x.shape)

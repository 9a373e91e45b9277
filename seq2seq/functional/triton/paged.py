"""Attention of a decoding step to keys and values in pages, which are read without copies.

`gather_attention` in `functional/decode.py` computes the same but copies all keys and values.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.functional.triton.blocks import load, product, rows_of, store
from seq2seq.functional.triton.forward import soften, write_outputs
from seq2seq.functional.triton.launch import INSTEAD, Sizes, is_interpreted, round_up, types_of
from seq2seq.functional.triton.scores import compare
from seq2seq.functional.triton.tiles import hide, tile_arguments

# Keys that one program reads. With a fixed number, the partial sums of a row and their order depend
# only on its own length, not on the batch or on the number of programs that a GPU can run at once.
SPLIT = 512
ROWS = 16  # queries of a program, the fewest that a product of blocks allows


def paged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slots: Tensor,
    lengths: Tensor,
    *,
    scale: float = 1.0,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    split: int = SPLIT,
    block: int | None = None,
) -> Tensor:
    """softmax(scale q k^T + bias) v for a few queries per row, over the keys in the row's slots.

    The result of a row is the same, bit for bit, whatever other rows are in the batch.

    Args:
        q: (N, H, T, D).
        k: (G, slots of the pool, D), G divides H.   v: (G, slots of the pool, M).
        slots: slots of each row's tokens, (N, S).
        lengths: number of tokens in each row, (N,); later slots are not read.
        scale: factor of the scores.
        mask: bool, broadcastable to (N, H, T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (N, H, T, S).
        split: number of keys in a partial sum, a multiple of the block; results for different
            values differ by rounding.
        block: number of keys read at once, a power of two, at least 16; None = chosen by the
            widths.

    Returns: (N, H, T, M), zeros for a query that may attend to nothing.
    Raises: ValueError if shapes disagree; ConfigError if the tensors are not on a GPU or are
        float64, unless Triton's interpreter is in use.
    Source: Dao et al. 2023, "Flash-Decoding"; Kwon et al. 2023, arXiv:2309.06180.
    """
    (N, H, T, D), (G, _, M), S = q.shape, v.shape, slots.shape[1]
    check_pages(q, k, v, slots, lengths)
    widths = round_up(D), round_up(M)
    # With larger blocks a float32 program would need more registers than the GPU has.
    block = block or (32 if max(widths) <= 64 else 16)
    if split % block:
        raise ValueError(f"split={split} should be a multiple of block={block}")
    dtype = torch.promote_types(q.dtype, k.dtype)
    types = types_of(dtype)
    sizes = Sizes(*(tl.constexpr(x) for x in (ROWS, block, *widths, types.sum, types.product)))
    # The query heads of a group count as more queries of its key head.
    rows = H // G * T
    scores = N, G, rows, S
    mask, bias = (None if x is None else x.expand(N, H, T, S).reshape(scores) for x in (mask, bias))
    tiles = tile_arguments(scores, False, mask, bias)
    splits, wide = max(1, triton.cdiv(S, split)), torch.promote_types(dtype, torch.float32)
    out = q.new_empty(N, G, rows, M, dtype=v.dtype)
    parts = out if splits == 1 else q.new_empty(N, G * splits, rows, M, dtype=wide)
    lse = q.new_empty(*parts.shape[:3], 1, dtype=wide)
    blocks = triton.cdiv(rows, ROWS)
    with torch.cuda.device_of(q):
        attend_split[N, G * splits, blocks](
            tl.constexpr(scale), rows_of(q.reshape(N, G, rows, D)), rows_of(k), rows_of(v), slots,
            slots.stride(0), lengths, *tiles, rows_of(parts), rows_of(lse),
            tl.constexpr(split), sizes,
        )  # fmt: skip
        if splits > 1:
            add_splits[N, G, blocks](
                rows_of(parts), rows_of(lse), lengths, rows_of(out), split, sizes
            )
    return out.view(N, H, T, M)


def check_pages(q: Tensor, k: Tensor, v: Tensor, slots: Tensor, lengths: Tensor) -> None:
    """Check the arguments of `paged_attention`.

    Raises: ValueError if the sizes do not match or the slots are not contiguous; ConfigError if the
    kernel cannot use tensors of this type and device.
    """
    if not is_interpreted() and (not q.is_cuda or q.dtype == torch.float64):
        raise ConfigError(
            "kernel=triton decodes on a GPU, in float32, bfloat16 or float16, but this model has "
            f"{q.dtype} on device {q.device.type}. {INSTEAD}"
        )
    N, H, _, D = q.shape
    fits = k.shape[:2] == v.shape[:2] and k.shape[2] == D and H % len(k) == 0
    in_rows = len(slots) == N and (slots.stride(1) == 1 or slots.shape[1] == 1)
    if not (fits and in_rows and lengths.shape == (N,)):
        shapes = {"q": q, "k": k, "v": v, "slots": slots, "lengths": lengths}
        told = ", ".join(f"{name} {tuple(x.shape)}" for name, x in shapes.items())
        raise ValueError(
            f"{told}: they should be (N, H, T, D), (G, slots, D), (G, slots, M), (N, S) and (N,), "
            "where G divides H and the last axis of slots is contiguous"
        )


# Triton compiles a kernel again when a stride becomes a multiple of 16 or stops being one, and the
# strides of tables and masks change from step to step.
@triton.jit(do_not_specialize=["slots_n", "tiles", "mask", "bias"])
def attend_split(
    scale, q, k, v, slots, slots_n, lengths, tiles, mask, bias, parts, lse, SPLIT, sizes
):
    """Each program computes a block of queries of a row and key head, for the keys of one split."""
    n, splits = tl.program_id(0).to(tl.int64), parts.heads // k.heads
    g, part = tl.program_id(1) // splits, tl.program_id(1) % splits
    i = tl.program_id(2) * sizes.Q + tl.arange(0, sizes.Q)
    d, c = tl.arange(0, sizes.D), tl.arange(0, sizes.M)
    queries = load(q, n, g, i, d, sizes.WIDE)
    length = tl.load(lengths + n)
    m = tl.full((sizes.Q,), float("-inf"), sizes.WIDE)
    l = tl.zeros((sizes.Q,), sizes.WIDE)  # noqa: E741 - the name in the paper
    acc = tl.zeros((sizes.Q, sizes.M), sizes.WIDE)
    for start in range(part * SPLIT, tl.minimum((part + 1) * SPLIT, length), sizes.K):
        j = start + tl.arange(0, sizes.K)
        inside = j < length
        # The slots after a row's end are undefined: replace them by one outside the pool.
        slot = tl.load(slots + n * slots_n + j, mask=inside, other=k.rows)
        keys = load(k, 0, g, slot, d, sizes.WIDE)
        e = compare(scale, None, queries, keys, g, d, sizes.NARROW)
        e = tl.where(inside[None, :], hide(e, tiles, mask, bias, n, g, i, j), float("-inf"))
        m, l, fade, p = soften(e, m, l)  # noqa: E741
        values = load(v, 0, g, slot, c, sizes.WIDE)
        acc = acc * fade[:, None] + product(p, values, sizes.NARROW)
    write_outputs(acc, m, l, parts, lse, n, tl.program_id(1), i, c)


@triton.jit
def add_splits(parts, lse, lengths, out, SPLIT: tl.constexpr, sizes):
    """Add the results of the splits, in order, weighted by their shares of the exponentials.

    A single split has the factor exp(0) = 1, so that its result is unchanged.
    """
    n, g, splits = tl.program_id(0).to(tl.int64), tl.program_id(1), parts.heads // out.heads
    i = tl.program_id(2) * sizes.Q + tl.arange(0, sizes.Q)
    c = tl.arange(0, sizes.M)
    m = tl.full((sizes.Q,), float("-inf"), sizes.WIDE)
    l = tl.zeros((sizes.Q,), sizes.WIDE)  # noqa: E741
    acc = tl.zeros((sizes.Q, sizes.M), sizes.WIDE)
    for part in range(0, tl.cdiv(tl.load(lengths + n), SPLIT)):
        e = load(lse, n, g * splits + part, i, tl.arange(0, 1), sizes.WIDE)
        m, l, fade, share = soften(e, m, l)  # noqa: E741
        value = load(parts, n, g * splits + part, i, c, sizes.WIDE)
        acc = acc * fade[:, None] + value * share
    store(out, acc / tl.maximum(l, 1)[:, None], n, g, i, c)

"""Attention of a decoding step to keys and values in pages, read where they are.

`gather_attention` of `functional/decode.py` computes the same, and copies all keys and values.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2seq.errors import ConfigError
from seq2seq.kernels.launch import is_interpreted, round_up, types_of

# Keys that one program reads. Which partial sums there are, and in which order they are added, is
# thus a matter of a row's own length: not of the batch, nor of how many programs a machine can run.
SPLIT = 512
ROWS = 16  # queries of a program, the fewest that a product of blocks takes


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
    """softmax(scale q k^T + bias) v for a few queries a row, over the keys in the row's slots.

    The result of a row is the same to the bit whatever other rows there are.

    Args:
        q: (N, H, T, D).
        k: (G, slots of the pool, D), G divides H.   v: (G, slots of the pool, M).
        slots: (N, S), where each row's tokens are.
        lengths: (N,), how many tokens; the slots after them are not read.
        scale: factor of the scores.
        mask: bool, broadcastable to (N, H, T, S); True = may attend.
        bias: added to the scores, broadcastable to (N, H, T, S).
        split: keys of a partial sum, a multiple of the block; the result depends on it by rounding.
        block: keys read at once, a power of two, at least 16; None = what fits the widths.

    Returns: (N, H, T, M), zeros for a query that may attend to nothing.
    Raises: ValueError if shapes disagree; ConfigError where there is no GPU, nor the interpreter,
        and on a GPU for float64.
    Source: Dao et al. 2023, "Flash-Decoding"; Kwon et al. 2023, arXiv:2309.06180.
    """
    (N, H, T, D), (G, _, M), S = q.shape, v.shape, slots.shape[1]
    check_pages(q, k, v, slots, lengths)
    widths = round_up(D), round_up(M)
    # With larger blocks a program for float32 needs more registers than there are.
    block = block or (32 if max(widths) <= 64 else 16)
    if split % block:
        raise ValueError(f"split={split} should be a multiple of block={block}")
    dtype = torch.promote_types(q.dtype, k.dtype)
    types = types_of(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    rows = H // G * T  # the query heads of a group are further queries of its key head
    splits = max(1, triton.cdiv(S, split))
    out = q.new_empty(N, H, T, M, dtype=v.dtype)
    sums = out if splits == 1 else q.new_empty(N, G, splits, rows, M, dtype=wide)
    peaks = q.new_empty(*sums.shape[:4] if splits > 1 else (0,), 2, dtype=wide)
    strided_mask, strides_of_mask = with_strides(mask, (N, H, T, S))
    strided_bias, strides_of_bias = with_strides(bias, (N, H, T, S))
    grid = (N, G * triton.cdiv(rows, ROWS), splits)
    with torch.cuda.device_of(q):
        attend_split[grid](
            q, k, v, slots, lengths, strided_mask, strided_bias, out, sums, peaks,
            *q.stride(), *k.stride(), *v.stride(), slots.stride(0),
            *strides_of_mask, *strides_of_bias,
            scale, T, H // G, D, M,
            splits, split, block, ROWS, *widths, types.product, types.sum,
            mask is not None, bias is not None,
        )  # fmt: skip
        if splits > 1:
            add_splits[(N, G * rows)](
                lengths, out, sums, peaks,
                rows, M, splits, split, widths[1], types.sum,
            )  # fmt: skip
    return out


def check_pages(q: Tensor, k: Tensor, v: Tensor, slots: Tensor, lengths: Tensor) -> None:
    """Raises: ValueError for sizes that do not belong together, or slots of another layout;
    ConfigError for tensors that no kernel can read.
    """
    if not is_interpreted() and (not q.is_cuda or q.dtype == torch.float64):
        raise ConfigError(
            f"kernel=triton decodes on GPUs, in 32 bits or 16, and this is {q.dtype} on the device "
            f"{q.device.type}. Take kernel=auto; or TRITON_INTERPRET=1 for a slow check"
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


def with_strides(x: Tensor | None, shape: tuple[int, ...]) -> tuple[Tensor | None, tuple[int, ...]]:
    """A view in four axes, and its strides; booleans as bytes."""
    if x is None:
        return None, (0,) * len(shape)
    view = x.expand(shape)
    return view.view(torch.uint8) if x.dtype == torch.bool else view, view.stride()


@triton.jit
def load_wide(pointers, inside, WIDE: tl.constexpr):
    """Numbers in the type of sums, zeros where there are none. The interpreter computes wrongly
    with bfloat16, without a word.
    """
    return tl.load(pointers, mask=inside, other=0.0).to(WIDE)


# Whether these are multiples of 16 changes from step to step: each time it would be compiled again.
VARYING = ["slots_n", "mask_n", "mask_h", "mask_t", "mask_s", "bias_n", "bias_h", "bias_t"]


@triton.jit(do_not_specialize=[*VARYING, "bias_s", "splits"])
def attend_split(
    Q, K, V, SLOTS, LENGTHS, MASK, BIAS, OUT, SUMS, PEAKS,
    q_n, q_h, q_t, q_d, k_g, k_s, k_d, v_g, v_s, v_m, slots_n,
    mask_n, mask_h, mask_t, mask_s, bias_n, bias_h, bias_t, bias_s,
    scale, T, HEADS, D, M, splits,
    SPLIT: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, OUT_WIDTH: tl.constexpr, PRODUCT: tl.constexpr, WIDE: tl.constexpr,
    MASKED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """The queries of one row and key head, and the keys of one split: the weighted sum of values
    if the row has one split; else the sum without its divisor, its divisor and its highest score.
    """
    n, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    rows = HEADS * T
    tiles = tl.cdiv(rows, ROWS)
    g = (tl.program_id(1) // tiles).to(tl.int64)
    r = tl.program_id(1) % tiles * ROWS + tl.arange(0, ROWS)
    h, t = g * HEADS + r // T, r % T
    d, w, real = tl.arange(0, WIDTH), tl.arange(0, OUT_WIDTH), r < rows
    at_query = Q + n * q_n + h * q_h + t * q_t
    q = load_wide(at_query[:, None] + d * q_d, real[:, None] & (d < D), WIDE)
    length = tl.load(LENGTHS + n)
    m = tl.full([ROWS], float("-inf"), WIDE)
    l = tl.zeros([ROWS], WIDE)  # noqa: E741 - the name in the paper
    acc = tl.zeros([ROWS, OUT_WIDTH], WIDE)
    for start in range(part * SPLIT, tl.minimum((part + 1) * SPLIT, length), BLOCK):
        j = start + tl.arange(0, BLOCK)
        inside = j < length
        slot = tl.load(SLOTS + n * slots_n + j, mask=inside, other=0)
        k = load_wide(K + g * k_g + slot[None, :] * k_s + d[:, None] * k_d,
                 inside[None, :] & (d[:, None] < D), WIDE)  # fmt: skip
        product = tl.dot(q.to(PRODUCT), k.to(PRODUCT), input_precision="ieee", out_dtype=WIDE)
        e = product * scale
        pairs = real[:, None] & inside[None, :]
        if BIASED:
            at = n * bias_n + h * bias_h + t * bias_t
            e += load_wide(BIAS + at[:, None] + j[None, :] * bias_s, pairs, WIDE)
        if MASKED:
            at = n * mask_n + h * mask_h + t * mask_t
            seen = tl.load(MASK + at[:, None] + j[None, :] * mask_s, mask=pairs, other=0)
            pairs = pairs & (seen != 0)
        e = tl.where(pairs, e, float("-inf"))
        m_new = tl.maximum(m, tl.max(e, 1))
        # A query that has seen no key yet has m = -inf, and -inf minus itself would be NaN.
        top = tl.where(m_new == float("-inf"), 0.0, m_new)
        fade, p = tl.exp(m - top), tl.exp(e - top[:, None])
        l = l * fade + tl.sum(p, 1)  # noqa: E741
        v = load_wide(V + g * v_g + slot[:, None] * v_s + w[None, :] * v_m,
                 inside[:, None] & (w[None, :] < M), WIDE)  # fmt: skip
        weighted = tl.dot(p.to(PRODUCT), v.to(PRODUCT), input_precision="ieee", out_dtype=WIDE)
        acc = acc * fade[:, None] + weighted
        m = m_new
    inside_out = real[:, None] & (w < M)
    if splits == 1:
        at = (n * tl.num_programs(1) // tiles + g) * rows + r  # (N, H, T) in this order
        value = acc / tl.where(l == 0.0, 1.0, l)[:, None]
        tl.store(OUT + at[:, None] * M + w, value.to(OUT.dtype.element_ty), mask=inside_out)
    else:
        at = ((n * tl.num_programs(1) // tiles + g) * splits + part) * rows + r
        tl.store(SUMS + at[:, None] * M + w, acc, mask=inside_out)
        tl.store(PEAKS + at * 2, m, mask=real)
        tl.store(PEAKS + at * 2 + 1, l, mask=real)


@triton.jit(do_not_specialize=["splits"])
def add_splits(
    LENGTHS, OUT, SUMS, PEAKS, rows, M, splits,
    SPLIT: tl.constexpr, OUT_WIDTH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sums of the splits of one query, first to last, each scaled to the highest score so far.

    One split is added to nothing: exp(0) = 1, so that the result is that without a second one.
    """
    n, of_row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    w = tl.arange(0, OUT_WIDTH)
    head = n * (tl.num_programs(1) // rows) + of_row // rows
    m, l = tl.full([], float("-inf"), WIDE), tl.zeros([], WIDE)  # noqa: E741
    acc = tl.zeros([OUT_WIDTH], WIDE)
    for part in range(0, tl.cdiv(tl.load(LENGTHS + n), SPLIT)):
        at = (head * splits + part) * rows + of_row % rows
        m_part, l_part = tl.load(PEAKS + at * 2), tl.load(PEAKS + at * 2 + 1)
        m_new = tl.maximum(m, m_part)
        top = tl.where(m_new == float("-inf"), 0.0, m_new)
        fade, share = tl.exp(m - top), tl.exp(m_part - top)
        l = l * fade + l_part * share  # noqa: E741
        acc = acc * fade + load_wide(SUMS + at * M + w, w < M, WIDE) * share
        m = m_new
    value = acc / tl.where(l == 0.0, 1.0, l)
    at = head * rows + of_row % rows
    tl.store(OUT + at * M + w, value.to(OUT.dtype.element_ty), mask=w < M)

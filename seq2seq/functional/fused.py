"""Dot-product attention through torch's fused kernel, working around its pitfalls."""

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import causal_mask, intersect_masks

# Not cuDNN's, which plans anew for each shape, for up to a second; batches have many shapes.
BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def fused_attention(
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
    """softmax(scale q k^T + bias) v in one kernel, which usually never holds the full weights.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.   v: (B, G, S, M).
        scale: factor of the scores; 1 / sqrt(D) for scaled dot products.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (B, H, T, S). On a CPU, torch handles a
            bias that needs a gradient with a kernel that holds T x S weights.
        causal: True if the queries are the last T of S positions, and each reads only itself and
            earlier positions.
        dropout: probability of dropping a weight; pass 0 outside training. On a CPU, torch handles
            a value above 0 with a kernel that holds T x S weights.

    Returns: (B, H, T, M), zeros for a query that may attend to nothing.
    Raises: ValueError if shapes disagree, or G does not divide H.
    Source: Dao et al. 2022, arXiv:2205.14135; the kernel is torch's.
    """
    sizes = check("B H T D, B G S D, B G S M", q=q, k=k, v=v)
    T, S = sizes["T"], sizes["S"]
    # The kernel's own `is_causal` aligns the first query with the first key, so it is right only if
    # T = S; and it cannot be combined with a mask. A single query, the last, sees all keys.
    square = causal and T == S and mask is None and bias is None
    if causal and T > 1 and not square:
        mask = intersect_masks(mask, causal_mask(T, S, S - T, device=q.device))
    device = q.device.type
    # Under autocast an RNN's states are wider than its projections.
    dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
    inner = dtype
    if device == "cpu" and torch.is_grad_enabled() and q.requires_grad:
        # At the lengths of sentences, the backward pass of the CPU kernel in bfloat16 is up to 20
        # times slower than in float32, and it is slower at any length.
        inner = torch.promote_types(dtype, torch.float32)
    if bias is not None:
        # The kernel takes a single mask. With a bias it holds numbers to add; -inf hides a key.
        bias = bias.to(inner).view((1,) * (4 - bias.dim()) + bias.shape)
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    D, M = sizes["D"], sizes["M"]
    if D != M:
        # On a CPU, torch handles different widths with a kernel that holds T x S weights.
        q, k, v = (pad(x, (0, max(D, M) - x.shape[-1])) for x in (q, k, v))
    grouped = sizes["G"] != sizes["H"]
    if device == "cuda" and grouped and mask is not None:
        # With groups and a mask, only the kernel that holds T x S weights would be left.
        k, v = (x.repeat_interleave(sizes["H"] // sizes["G"], dim=1) for x in (k, v))
        grouped = False
    kernels = sdpa_kernel(BACKENDS) if device == "cuda" else nullcontext()
    with torch.autocast(device, enabled=False), kernels:
        out = scaled_dot_product_attention(
            q.to(inner),
            k.to(inner),
            v.to(inner),
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=square,
            scale=scale,
            enable_gqa=grouped,
        )
    return out[..., :M].to(dtype)

"""Latent attention: keys and values are linear maps of one narrow vector per token.

Additional letters: C width of the latent; Dn width of the part of a head that is not rotated by
positions, Dr of the part that is, D = Dn + Dr.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

from seq2seq.functional.decode import decode_attention, use_decode_attention
from seq2seq.functional.fused import fused_attention
from seq2seq.functional.scores import dot
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import causal_mask, explicit_attention, intersect_masks, upcast


def rms_norm(x: Tensor, gain: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * gain over the last axis, computed in float32 at least.

    Returns: a tensor in the shape and type of `x`.
    Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    """
    wide = upcast(x)
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * gain.to(wide.dtype)).to(x.dtype)


def latent_attention(
    q: Tensor,
    latent: Tensor,
    wk: Tensor,
    wv: Tensor,
    *,
    absorbed: bool,
    fused: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Attention to keys [Wk_h c_j; r_j] and values Wv_h c_j, computed from the latents [c_j; r_j].

        expanded: e_ij = q_i . [Wk c_j; r_j] / sqrt(D)               out_i = sum_j a_ij Wv c_j
        absorbed: e_ij = [Wk^T qn_i; qr_i] . [c_j; r_j] / sqrt(D)    out_i = Wv sum_j a_ij c_j

    Both forms give the same result. The expanded form makes the keys and values of every head; the
    absorbed form applies Wk to the query and Wv to the output, so that all heads read the same
    latents.

    Args:
        q: [qn; qr], (B, H, T, Dn + Dr).
        latent: [c; r], (B, 1, S, C + Dr); r is the part of the key that all heads share.
        wk: (H, Dn, C).   wv: (H, M, C).
        absorbed: True for the absorbed form; see `absorbing_is_cheaper`.
        fused: True to compute the expanded form by `fused_attention`, and the absorbed form by
            `decode_attention` if there are few queries. With many queries the absorbed form always
            holds its weights: with one key head they are a single product for all queries.
        mask: bool, broadcastable to (B, H, T, S); True = may attend.
        bias: terms added to the scores, broadcastable to (B, H, T, S).
        causal: True if the queries are the last T of S positions, and each reads only itself and
            earlier positions.
        dropout: probability of dropping a weight; pass 0 outside training.

    Returns: out (B, H, T, M), and the weights before dropout (B, H, T, S), None if fused.
    Raises: ValueError if shapes disagree.
    Source: DeepSeek-AI 2024, arXiv:2405.04434.
    """
    sizes = check("B H T D, B one S W, H N C, H M C", q=q, latent=latent, wk=wk, wv=wv)
    T, S, C = (sizes[letter] for letter in "TSC")
    if sizes["one"] != 1 or sizes["D"] - sizes["N"] != sizes["W"] - C:
        raise ValueError(
            f"latent has shape {tuple(latent.shape)}; expected one head of width "
            f"{C + sizes['D'] - sizes['N']}"
        )
    scale = sizes["D"] ** -0.5
    if absorbed:
        q, k, v = absorb(q, wk), latent, latent[..., :C]
    else:
        k, v = expand(latent, wk, wv)
        if fused:
            out = fused_attention(
                q, k, v, scale=scale, mask=mask, bias=bias, causal=causal, dropout=dropout
            )
            return out, None
    if causal:
        mask = intersect_masks(mask, causal_mask(T, S, S - T, device=q.device))
    weights = None
    if fused and dropout == 0 and use_decode_attention(q):
        out = decode_attention(q, k, v, scale=scale, mask=mask, bias=bias)
    else:
        out, weights = explicit_attention(
            dot(q, k, scale), v, mask=mask, bias=bias, dropout=dropout
        )
    if absorbed:
        out = torch.einsum("bhtc,hmc->bhtm", out, wv)
    return out, weights


def absorb(q: Tensor, wk: Tensor) -> Tensor:
    """Turn the query [qn; qr] into a query of the latents, [Wk^T qn; qr]: (B, H, T, C + Dr)."""
    still, turned = q.tensor_split([wk.shape[1]], dim=-1)
    return torch.cat((torch.einsum("bhtn,hnc->bhtc", still, wk), turned), dim=-1)


def expand(latent: Tensor, wk: Tensor, wv: Tensor) -> tuple[Tensor, Tensor]:
    """Make every head's keys [Wk c; r], (B, H, S, Dn + Dr), and values Wv c, (B, H, S, M)."""
    H = wk.shape[0]
    c, shared = latent.tensor_split([wk.shape[2]], dim=-1)
    # One product for the keys of all heads, and one for the values.
    k, v = (
        linear(c[:, 0], weight.flatten(0, 1)).unflatten(-1, (H, -1)).transpose(1, 2)
        for weight in (wk, wv)
    )
    if shared.shape[-1]:
        k = torch.cat((k, shared.expand(-1, H, -1, -1)), dim=-1)
    return k, v


def absorbing_is_cheaper(T: int, S: int, C: int, widths: int) -> bool:
    """True if the absorbed form takes fewer multiplications, and no more memory.

    Per head, the expanded form takes S (Dn + M) C multiplications to make keys and values, and
    T S (Dn + M) to read them. The absorbed form takes T (Dn + M) C for queries and outputs, and
    2 T S C to read the latents. The cost of Dr is left out. The absorbed form holds T S weights
    where the expanded form holds S (Dn + M) keys and values.

    Args:
        widths: Dn + M.
    """
    if widths < T:
        return False
    return T * C * (widths + 2 * S) < S * widths * (C + T)

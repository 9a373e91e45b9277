"""Attention to a sequence that was compressed along its length: Linformer."""

import torch
from torch import Tensor

from seq2seq.functional.fused import fused_attention
from seq2seq.functional.shapes import check


def project_length(x: Tensor, projection: Tensor, mask: Tensor | None = None) -> Tensor:
    """R learnt mixtures of all positions: y_r = sum_s P_rs x_s over the real s.

    A masked position counts as zero and changes nothing; zeroing the input of the projection that
    made x would leave its bias.

    Args:
        x: keys or values, (B, G, S, D).
        projection: P, (G, R, N), or (1, R, N) for all heads; of its N columns the first S are read.
        mask: bool, (B, S), True = real token; None = all are real.

    Returns: (B, G, R, D).
    Raises: ValueError if shapes disagree, or if S is more than N.
    Source: Wang et al. 2020, arXiv:2006.04768.
    """
    sizes = check("B G S D", x=x)
    heads, _, columns = projection.shape
    if heads not in (1, sizes["G"]) or sizes["S"] > columns:
        raise ValueError(
            f"projection has shape {tuple(projection.shape)}; expected ({sizes['G']}, R, N) or "
            f"(1, R, N) with N at least S={sizes['S']}"
        )
    if mask is not None:
        x = x.masked_fill(~mask[:, None, :, None], 0)
    # One product a head over all sentences; a broadcast matmul would copy P for each of them.
    return torch.einsum("grs,bgsd->bgrd", projection[:, :, : sizes["S"]], x)


def linformer_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    e: Tensor,
    f: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(scale q (E k)^T) (F v): every query reads R mixtures of the keys, none of which is
    masked.

    Costs (T + S) R, not T S. A row of padding only has zero mixtures, hence a zero output.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.   v: (B, G, S, M).
        e, f: the projections of keys and of values, see `project_length`.
        scale: factor of the scores; 1 / sqrt(D) in the paper.
        mask: bool, (B, S), True = real token; None = all are real.
        dropout: probability of dropping one of the T x R weights; pass 0 outside training.

    Returns: (B, H, T, M).
    Raises: ValueError as `project_length`, or if G does not divide H.
    Source: Wang et al. 2020, arXiv:2006.04768.
    """
    mixed_k, mixed_v = project_length(k, e, mask), project_length(v, f, mask)
    return fused_attention(q, mixed_k, mixed_v, scale=scale, dropout=dropout)

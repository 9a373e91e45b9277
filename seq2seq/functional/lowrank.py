"""Compression of keys and values along their length, for Linformer."""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check


def project_length(x: Tensor, projection: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compress S positions to R learnt mixtures: y_r = sum_s P_rs x_s over the real tokens s.

    Padding is masked here, in x itself: if the input of the linear map that makes x were zeroed
    instead, the bias of that map would remain.

    Args:
        x: keys or values, (B, G, S, D).
        projection: P, (G, R, N), or (1, R, N) for all heads. Only its first S columns are used.
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
    # One product per head for all sentences; a broadcast matmul would copy P for each sentence.
    return torch.einsum("grs,bgsd->bgrd", projection[:, :, : sizes["S"]], x)

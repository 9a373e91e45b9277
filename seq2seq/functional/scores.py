"""Score functions e_ij = f(q_i, k_j): how well key j answers query i.

Each takes its parameters as arguments, with a leading axis of heads, and returns (B, H, T, S).
"""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check, check_groups


def dot(q: Tensor, k: Tensor, scale: float = 1.0) -> Tensor:
    """e = scale q . k.

    Args:
        q: (B, H, T, D).   k: (B, G, S, D), G divides H.
        scale: 1 gives Luong's dot, 1 / sqrt(D) the scaled dot product.

    Returns: (B, H, T, S).
    Source: Luong et al. 2015, arXiv:1508.04025; Vaswani et al. 2017, arXiv:1706.03762.
    """
    sizes = check("B H T D, B G S D", q=q, k=k)
    B, H, T, D, G = (sizes[letter] for letter in "BHTDG")
    check_groups(H, G)
    # -> (B, G, H / G * T, D): the query heads of a group are further queries of its key head
    grouped = (q * scale).reshape(B, G, H // G * T, D)
    return (grouped @ k.transpose(-2, -1)).view(B, H, T, -1)


def project_per_head(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each head's own linear map: (B, G, S, D) with W (H, A, D), b (H, A) -> (B, H, S, A), G
    divides H.
    """
    H, G = weight.shape[0], x.shape[1]
    check_groups(H, G)
    if G != H:
        x = x.repeat_interleave(H // G, dim=1)
    # One product a head over all sentences; a broadcast matmul would copy the weights B times.
    out = torch.einsum("bhsd,had->bhsa", x, weight)
    return out if bias is None else out + bias[:, None]


def additive(wq: Tensor, wk: Tensor, u: Tensor) -> Tensor:
    """e = u . tanh(Wq q + Wk k + b), from the two projections already made.

    The projection of the keys (with b) does not depend on the query, so a decoder makes it once a
    sentence.

    Args:
        wq: Wq q, (B, H, T, A).   wk: Wk k + b, (B, H, S, A).   u: (H, A).

    Returns: (B, H, T, S); holds B H T S A numbers on the way.
    Source: Bahdanau et al. 2015, arXiv:1409.0473.
    """
    check("B H T A, B H S A, H A", wq=wq, wk=wk, u=u)
    hidden = (wq[:, :, :, None] + wk[:, :, None]).tanh_()
    return torch.einsum("bhtsa,ha->bhts", hidden, u)

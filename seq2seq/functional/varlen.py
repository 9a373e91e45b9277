"""Dot-product attention over packed tokens: sentences of any lengths, one after the other."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.functional.scores import dot
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import explicit_attention, upcast


class Borders(NamedTuple):
    """The borders of B sentences in a row of N queries and in a row of S keys.

    Attributes:
        queries: (B + 1,) int32, ascending from 0 to N: sentence b is from queries[b] up to, and
            without, queries[b + 1]. It may be empty.
        keys: likewise, from 0 to S.
        longest: number that no length exceeds. It decides how the kernel divides its work, so a
            constant, larger number gives the same result.
    """

    queries: Tensor
    keys: Tensor
    longest: int


def varlen_attention(
    q: Tensor, k: Tensor, v: Tensor, borders: Borders, *, scale: float, causal: bool = False
) -> Tensor:
    """softmax(scale q k^T) v, where each query reads the keys of the sentence with its own number.

    On CUDA, inputs of 16 bits are computed by a kernel that reads no other pairs. Everything else
    is computed by the reference, which holds all N x S weights.

    Args:
        q: (N, H, D).   k: (S, G, D), G divides H.   v: (S, G, D).
        borders: sentences of both sides.
        scale: factor of the scores; 1 / sqrt(D) for scaled dot products.
        causal: a query reads its own and earlier places only. Both sides must have the same
            sentences.

    Returns: (N, H, D), zeros for a query in whose sentence there are no keys.
    Raises: ValueError if shapes disagree, or G does not divide H.
    Source: Dao et al. 2022, arXiv:2205.14135; the kernel is torch's.
    """
    check("N H D, S G D, S G D", q=q, k=k, v=v)
    in_kernel = q.device.type == "cuda" and q.dtype in (torch.float16, torch.bfloat16)
    compute = varlen_kernel if in_kernel else varlen_reference
    return compute(q, k, v, borders, scale, causal)


def varlen_kernel(
    q: Tensor, k: Tensor, v: Tensor, borders: Borders, scale: float, causal: bool
) -> Tensor:
    """`varlen_attention` by torch's kernel."""
    from torch.nn.attention.varlen import varlen_attn  # older versions of torch lack it

    (_, H, D), G = q.shape, k.shape[1]
    if G != H:  # not all versions of the kernel know groups
        k, v = (x.repeat_interleave(H // G, dim=1) for x in (k, v))
    if D % 8:  # the kernel takes only multiples of 8
        q, k, v = (pad(x, (0, -D % 8)) for x in (q, k, v))
    starts, longest = (borders.queries, borders.keys), borders.longest
    window = (-1, 0) if causal else (-1, -1)
    out = varlen_attn(q, k, v, *starts, longest, longest, scale=scale, window_size=window)
    assert isinstance(out, Tensor)  # it returns more only if asked
    return out[..., :D]


def varlen_reference(
    q: Tensor, k: Tensor, v: Tensor, borders: Borders, scale: float, causal: bool
) -> Tensor:
    """`varlen_attention` written out, in float32 at least."""
    mask = sentence_of(len(q), borders.queries)[:, None] == sentence_of(len(k), borders.keys)
    mask = mask.tril() if causal else mask
    with torch.autocast(q.device.type, enabled=False):
        q, k, wide_v = (upcast(x).transpose(0, 1)[None] for x in (q, k, v))
        out, _ = explicit_attention(dot(q, k, scale), wide_v, mask=mask)
    return out[0].transpose(0, 1).to(v.dtype)


def sentence_of(tokens: int, starts: Tensor) -> Tensor:
    """The number of the sentence that each token is in, (tokens,)."""
    token = torch.arange(tokens, dtype=torch.int32, device=starts.device)
    return torch.searchsorted(starts[1:], token, right=True)

"""Dot-product attention over packed tokens: sentences of any lengths, one after the other."""

from importlib import import_module
from inspect import signature
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import masked_softmax, upcast

HALF = (torch.float16, torch.bfloat16)
MULTIPLE = 8  # the kernel takes heads whose width is a multiple of this


class Sentences(NamedTuple):
    """The borders of B sentences in a row of N tokens.

    Attributes:
        starts: (B + 1,) int32, ascending: sentence b is tokens starts[b] ... starts[b + 1] - 1. It
            may be empty. The first number is 0, the last N.
        longest: number that no length exceeds. It decides how the kernel divides its work, so a
            constant, larger number gives the same result.
    """

    starts: Tensor
    longest: int


def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sentences,
    keys: Sentences,
    *,
    scale: float,
    causal: bool = False,
) -> Tensor:
    """softmax(scale q k^T) v, where each query reads the keys of the sentence with its own number.

    On CUDA, inputs of 16 bits are computed by a kernel that reads no other pairs. Everything else
    is computed by the reference, which holds all N x S weights.

    Args:
        q: (N, H, D).   k: (S, G, D), G divides H.   v: (S, G, D).
        queries, keys: equally many sentences of both sides.
        scale: factor of the scores; 1 / sqrt(D) for scaled dot products.
        causal: a query reads its own and earlier places only. Both sides must have the same
            sentences.

    Returns: (N, H, D), zeros for a query in whose sentence there are no keys.
    Raises: ValueError if shapes disagree, or G does not divide H.
    Source: Dao et al. 2022, arXiv:2205.14135; the kernel is torch's.
    """
    sizes = check("N H D, S G D, S G D", q=q, k=k, v=v)
    if sizes["G"] != sizes["H"]:  # the kernel of some versions of torch lacks groups
        k, v = (x.repeat_interleave(sizes["H"] // sizes["G"], dim=1) for x in (k, v))
    if q.device.type == "cuda" and q.dtype in HALF:
        return varlen_kernel(q, k, v, queries, keys, scale, causal)
    return varlen_reference(q, k, v, queries, keys, scale, causal)


def has_varlen_kernel() -> bool:
    """True if this torch has the kernel, with a scale as one of its arguments."""
    try:
        module = import_module("torch.nn.attention.varlen")
    except ImportError:
        return False
    return "scale" in signature(module.varlen_attn).parameters


def varlen_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sentences,
    keys: Sentences,
    scale: float,
    causal: bool,
) -> Tensor:
    """`varlen_attention` by torch's kernel; all of q, k and v have H heads."""
    from torch.nn.attention.varlen import varlen_attn  # older versions of torch lack it

    D = q.shape[-1]
    q, k, v = (pad(x, (0, -D % MULTIPLE)) for x in (q, k, v))
    out = varlen_attn(
        q,
        k,
        v,
        queries.starts,
        keys.starts,
        queries.longest,
        keys.longest,
        scale=scale,
        window_size=(-1, 0) if causal else (-1, -1),
    )
    assert isinstance(out, Tensor)  # it returns more only if asked
    return out[..., :D]


def varlen_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sentences,
    keys: Sentences,
    scale: float,
    causal: bool,
) -> Tensor:
    """`varlen_attention` written out, in float32 at least; all of q, k and v have H heads."""
    mask = sentence_of_tokens(queries, len(q))[:, None] == sentence_of_tokens(keys, len(k))
    if causal:
        mask = mask.tril()
    with torch.autocast(q.device.type, enabled=False):
        wide_q, wide_k, wide_v = (upcast(x).transpose(0, 1) for x in (q, k, v))  # (H, N, D)
        weights = masked_softmax(scale * wide_q @ wide_k.transpose(1, 2), mask)
        return (weights @ wide_v).transpose(0, 1).to(v.dtype)


def sentence_of_tokens(sentences: Sentences, tokens: int) -> Tensor:
    """The number of the sentence that each of N tokens is in, (N,)."""
    token = torch.arange(tokens, device=sentences.starts.device, dtype=torch.int32)
    return torch.searchsorted(sentences.starts[1:], token, right=True)

"""Linformer, compared with loops over single elements, and its memory for the gradient."""

import math
from functools import partial

import pytest
import torch
from helpers.builders import assert_equal, gradients, mask_of
from helpers.gradients import held_for_the_gradient
from torch import Tensor

from seq2seq.functional import fused_attention
from seq2seq.functional.lowrank import project_length


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def linformer(
    q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, scale: float, mask: Tensor | None = None
) -> Tensor:
    """softmax(scale q (E k)^T) (F v), with the functions that the layer calls."""
    mixed_k, mixed_v = project_length(k, e, mask), project_length(v, f, mask)
    return fused_attention(q, mixed_k, mixed_v, scale=scale)


def mixtures(x: Tensor, projection: Tensor, lengths: list[int]) -> Tensor:
    """y[b, g, r] = sum_s P[g, r, s] x[b, g, s] over the real s, term by term."""
    B, G, _, D = x.shape
    rows = []
    for b in range(B):
        for g in range(G):
            matrix = projection[g % projection.shape[0]]
            for r in range(matrix.shape[0]):
                row = torch.zeros(D, dtype=torch.float64)
                for s in range(lengths[b]):
                    row = row + matrix[r, s] * x[b, g, s]
                rows.append(row)
    return torch.stack(rows).view(B, G, -1, D)


def by_hand(
    q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, scale: float, lengths: list[int]
) -> Tensor:
    """Linformer's formula, one query at a time and without any matrix product."""
    mixed_k, mixed_v = mixtures(k, e, lengths), mixtures(v, f, lengths)
    B, H, T, _ = q.shape
    shared = H // k.shape[1]
    outs = []
    for b in range(B):
        for h in range(H):
            for t in range(T):
                keys, values = mixed_k[b, h // shared], mixed_v[b, h // shared]
                exponentials = [(scale * (q[b, h, t] * key).sum()).exp() for key in keys]
                pairs = zip(exponentials, values, strict=True)
                outs.append(sum(one * value for one, value in pairs) / sum(exponentials))
    return torch.stack(outs).view(B, H, T, -1)


@pytest.mark.parametrize("per_head", [True, False], ids=["a matrix a head", "one matrix"])
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_linformer_and_its_gradients_are_those_of_loops(groups: int, per_head: bool) -> None:
    B, H, T, S, D, M, R, N = 3, 4, 2, 5, 3, 2, 3, 9
    lengths, heads = [5, 0, 2], groups if per_head else 1
    q, k, v = randn(B, H, T, D), randn(B, groups, S, D), randn(B, groups, S, M)
    e, f = randn(heads, R, N), randn(heads, R, N)
    mask = mask_of(lengths, S)
    out = linformer(q, k, v, e, f, scale=D**-0.5, mask=mask)
    expected = by_hand(q, k, v, e, f, 1 / math.sqrt(D), lengths)
    assert_equal(out, expected)
    assert not out[1].any()
    slope, given = torch.randn_like(out), (q, k, v, e, f)
    actual = gradients((out * slope).sum(), *given)
    assert_equal(actual, gradients((expected * slope).sum(), *given))
    # Columns beyond the sequence take no part.
    assert not actual[3][..., S:].any() and actual[3][..., :S].any()


def test_padding_may_hold_anything() -> None:
    x, projection, mask = randn(2, 2, 5, 3), randn(1, 3, 5), mask_of([2, 5], 5)
    spoilt = x.detach().clone()
    spoilt[0, :, 2:] = torch.nan
    assert_equal(project_length(spoilt, projection, mask), project_length(x, projection, mask))


def test_the_identity_gives_full_attention_as_long_as_nothing_is_padding() -> None:
    q, k, v = randn(2, 2, 3, 4), randn(2, 2, 6, 4), randn(2, 2, 6, 4)
    identity = torch.eye(6, dtype=torch.float64)[None]
    full = (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v
    assert_equal(linformer(q, k, v, identity, identity, scale=0.5), full)
    mask = mask_of([6, 3], 6)
    padded = linformer(q, k, v, identity, identity, scale=0.5, mask=mask)
    assert_equal(padded[0], full[0])
    # Three keys of zeros still take weight, exp(0) each.
    scores = (q[1] @ k[1, :, :3].transpose(-2, -1) / 2).exp()
    assert_equal(padded[1], scores @ v[1, :, :3] / (scores.sum(-1, keepdim=True) + 3))


def test_shapes_that_do_not_fit_are_named() -> None:
    x = randn(2, 4, 6, 3)
    for wrong in ((1, 2, 5), (2, 2, 6)):
        with pytest.raises(ValueError, match=r"expected \(4, R, N\) or \(1, R, N\) .* S=6"):
            project_length(x, randn(*wrong))


@pytest.mark.parametrize("heads", [1, 4])
def test_memory_for_the_gradient_grows_linearly_with_the_length(heads: int) -> None:
    def held(S: int) -> int:
        q, k, v = (randn(1, 4, S, 8) for _ in range(3))
        e, f = randn(heads, 5, S), randn(heads, 5, S)
        attend = partial(linformer, q, k, v, e, f, scale=1.0, mask=mask_of([S - 1], S))
        return sum(held_for_the_gradient(attend))

    assert 1.8 < held(4000) / held(2000) < 2.1

"""FAVOR+: the estimate of the softmax kernel, and three defects that it must not have."""

import math
from itertools import pairwise

import pytest
import torch
from helpers.builders import assert_equal, gradients
from torch import Tensor

from seq2seq.functional.features import (
    default_features,
    favor_map,
    log_features,
    orthogonal_features,
    relu_map,
)
from seq2seq.functional.linear import (
    causal_linear_attention,
    key_sums,
    linear_attention,
    linear_weights,
)

D = 8


def vectors(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def estimates(q: Tensor, k: Tensor, features: int, draws: int) -> Tensor:
    """phi(q) . phi(k) for many draws of the features."""
    kernels = []
    for _ in range(draws):
        w = orthogonal_features(features, D).double()
        logs = log_features(torch.stack((q, k))[None, None], w)[0, 0]
        kernels.append(logs.sum(0).exp().mean())
    return torch.stack(kernels)


@pytest.mark.parametrize("width, expected", [(1, 1), (2, 2), (8, 24), (32, 128), (64, 320)])
def test_there_are_d_ln_d_features_in_whole_blocks(width: int, expected: int) -> None:
    assert default_features(width) == expected >= width * math.log(width)


def test_directions_are_orthogonal_within_blocks_and_as_long_as_gaussian_vectors() -> None:
    w = orthogonal_features(2 * D + 3, D)
    assert w.shape == (2 * D + 3, D)
    for block in w.split(D):
        products = block @ block.T
        assert_equal(products, products.diagonal().diag(), 1e-4)
    squares = orthogonal_features(4000, D).square().sum(-1)
    # Squared lengths follow chi squared with D degrees of freedom: mean D, variance 2 D.
    assert abs(squares.mean() - D) < 4 * math.sqrt(2 * D / 4000)
    assert squares.var() == pytest.approx(2 * D, rel=0.2)


def test_no_entry_of_a_direction_prefers_a_sign() -> None:
    # The columns of a raw QR decomposition have a diagonal that is mostly negative.
    blocks = orthogonal_features(400 * D, D).view(400, D, D)
    positive = (blocks > 0).float().mean(0)
    assert ((positive - 0.5).abs() < 5 * 0.5 / math.sqrt(400)).all()


def test_the_kernel_is_estimated_without_bias() -> None:
    # Along the diagonal the signs of a raw QR decomposition add up.
    along = torch.full((2, D), 0.33, dtype=torch.float64)
    for q, k in (along, -along, 0.5 * vectors(2, D)):
        expected = ((q @ k) / math.sqrt(D)).exp()
        drawn = estimates(q, k, D, 2000)
        assert abs(drawn.mean() - expected) < 4 * drawn.std() / math.sqrt(2000)


def test_the_error_falls_with_more_features() -> None:
    q, k = 0.5 * vectors(2, D)
    expected = ((q @ k) / math.sqrt(D)).exp()
    errors = [
        (estimates(q, k, F, 100) - expected).square().mean().sqrt().item()
        for F in (16, 64, 256, 1024)
    ]
    # 1 / sqrt(F): half for four times as many.
    for coarse, fine in pairwise(errors):
        assert fine < 0.75 * coarse


def test_with_many_features_the_weights_are_those_of_the_softmax() -> None:
    q, k = 0.5 * vectors(2, 1, 2, 7, D)
    softmax = (q @ k.transpose(-2, -1) / math.sqrt(D)).softmax(-1)
    weights = linear_weights(favor_map(orthogonal_features(8192, D).double()), q, k)
    assert_equal(weights, softmax, 0.01)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("past", [1, 8])
def test_no_later_key_changes_an_output_however_large_it_is(
    past: float, dtype: torch.dtype
) -> None:
    w = orthogonal_features(24, D).to(dtype)
    phi = favor_map(w)
    q, k, v = vectors(3, 1, 2, 9, D).to(dtype)
    # Long keys have tiny features; the largest feature that there can be is that of a key w_m.
    k *= past
    out, _ = causal_linear_attention(phi, q, k, v)
    assert out.norm(dim=-1).min() > 0.1
    for later in range(1, 9):
        for key in (w[0] * D**0.25, 1000 * w[1]):
            other, values = k.clone(), v.clone()
            other[:, :, later] = key
            values[:, :, later:] = 1e3
            changed, _ = causal_linear_attention(phi, q, other, values)
            tolerance = 1e-12 if dtype is torch.float64 else 1e-5
            assert_equal(changed[:, :, :later], out[:, :, :later], tolerance)


def test_padded_keys_are_in_no_denominator_however_large_they_are() -> None:
    for phi in (favor_map(W := orthogonal_features(24, D).double()), relu_map(W)):
        q, k, v = vectors(3, 1, 2, 9, D)
        mask = torch.arange(9)[None] < 6
        k[:, :, 6:] = 3 * W[0]
        v[:, :, 6:] = 100.0
        k.requires_grad_()
        out = linear_attention(phi, q, key_sums(phi, k, v, mask))
        alone = linear_attention(phi, q, key_sums(phi, k[:, :, :6], v[:, :, :6]))
        assert_equal(out, alone)
        causal, _ = causal_linear_attention(phi, q, k, v, mask)
        last, _ = causal_linear_attention(phi, q[:, :, :6], k[:, :, :6], v[:, :, :6])
        assert_equal(causal[:, :, :6], last)
        (slope,) = gradients(out.sum(), k)
        assert not slope[:, :, 6:].any()


@pytest.mark.parametrize("size", [1e-3, 1.0, 10.0, 1e3])
def test_inputs_of_any_size_give_finite_answers_and_gradients_in_float32(size: float) -> None:
    phi = favor_map(orthogonal_features(24, D))
    q, k, v = (size * torch.randn(3, 1, 2, 70, D)).requires_grad_().unbind(0)
    for out in (
        causal_linear_attention(phi, q, k, v)[0],
        linear_attention(phi, q, key_sums(phi, k, v)),
    ):
        assert out.isfinite().all()
        assert out.abs().max() <= v.abs().max() * 1.001
        assert all(slope.isfinite().all() for slope in gradients(out.sum(), q, k, v))


def test_the_relu_kernel_is_that_of_the_paper() -> None:
    w, q = orthogonal_features(5, D).double(), vectors(1, 1, 3, D)
    values = relu_map(w).queries(q)
    for i in range(3):
        for m in range(5):
            expected = max(0.0, (w[m] @ q[0, 0, i]).item() / D**0.25) + 1e-3
            assert values[0, 0, i, m].item() == pytest.approx(expected)

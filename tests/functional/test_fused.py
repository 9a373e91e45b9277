"""The fused kernel equals the explicit formula and its gradients."""

from typing import Any

import pytest
import torch
from helpers.builders import assert_equal, gradients
from helpers.gradients import assert_same
from softmax_cases import visible, with_past, written_out
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2seq.functional import explicit_attention, fused_attention
from seq2seq.functional.scores import dot

B, H, D, M = 2, 4, 6, 6
SCALE = D**-0.5


def inputs(
    queries: int, keys: int, groups: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    shapes = (B, H, queries, D), (B, groups, keys, D), (B, groups, keys, M)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def explicit(given: list[Tensor], *options: Any) -> Tensor:
    q, k, v = given
    return written_out(dot(q, k, SCALE), v, *options)


@pytest.mark.parametrize("mask", ["none", "padding", "any", "empty"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 7), (65, 65), (1, 7), (3, 7), (7, 65)], ids=str)
def test_fused_equals_explicit_with_gradients(
    sizes: tuple[int, int], groups: int, causal: bool, mask: str
) -> None:
    given, allowed = inputs(*sizes, groups), visible(mask, (B, H, *sizes))
    fused = fused_attention(*given, scale=SCALE, mask=allowed, causal=causal)
    expected = explicit(given, allowed, causal)
    assert_same(fused, expected, *given)


@pytest.mark.parametrize("bias", [None, torch.randn(H, 3, 5).double()], ids=["plain", "biased"])
def test_a_query_without_any_key_gets_zeros_and_finite_gradients(bias: Tensor | None) -> None:
    given, causal = inputs(3, 5, 2), bias is None
    leaves = given if bias is None else [*given, bias.requires_grad_()]
    mask = torch.zeros(B, 1, 1, 5, dtype=torch.bool)
    out = fused_attention(*given, scale=SCALE, mask=mask, bias=bias, causal=causal)
    assert not out.any()
    for slope in gradients(out.sum(), *leaves):
        assert not slope.any()


@pytest.mark.parametrize("with_gradient", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_fused_equals_explicit_in_bfloat16_under_autocast(
    causal: bool, with_gradient: bool
) -> None:
    given = inputs(5, 9, 2, torch.float32)
    low = [x.bfloat16() for x in given]
    mask = visible("any", (B, H, 5, 9))
    reference = explicit([x.float() for x in low], mask, causal)
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(with_gradient):
        fused = fused_attention(*low, scale=SCALE, mask=mask, causal=causal)
        written = explicit(low, mask, causal)
    assert fused.dtype is torch.bfloat16
    assert_equal(fused.float(), reference, 2e-2)
    assert_equal(written.float(), reference, 2e-2)
    if with_gradient:
        slope = torch.randn_like(reference)
        actual = gradients((fused.float() * slope).sum(), *given)
        assert_equal(actual, gradients((reference * slope).sum(), *given), 3e-2)


def test_fused_dropout_removes_weights_and_keeps_their_mean() -> None:
    q, k = torch.zeros(2, 4, 300, D), torch.zeros(2, 4, 64, D)
    # Values of one: each output is the sum of the weights that were kept.
    kept = fused_attention(q, k, torch.ones(2, 4, 64, M), scale=SCALE, dropout=0.25)[..., 0]
    # A sum of 64 terms, each 1/48 with probability 3/4: mean 1, variance 64 (3/16) / 48^2 = 1/192
    assert abs(kept.mean().item() - 1) < 5 * (1 / 192 / kept.numel()) ** 0.5
    assert kept.var().item() == pytest.approx(1 / 192, rel=0.15)


def test_shapes_that_disagree_are_refused_by_name() -> None:
    q, k, v = torch.zeros(2, 4, 3, 6), torch.zeros(2, 2, 5, 6), torch.zeros(2, 2, 5, 6)
    with pytest.raises(ValueError, match="k has shape"):
        fused_attention(q, k[..., :4], v, scale=1.0)
    with pytest.raises(ValueError, match="v has shape"):
        fused_attention(q, k, v[:, :, :4], scale=1.0)
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        fused_attention(q[:, :3], k, v, scale=1.0)


@pytest.mark.parametrize("leading", [(), (H,), (B, H), (B, 1)], ids=str)
@pytest.mark.parametrize("of_keys", [False, True], ids=["of pairs", "of keys"])
@pytest.mark.parametrize("mask", ["none", "padding", "any", "empty"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("sizes", [(7, 7), (1, 7), (3, 7)], ids=str)
def test_a_bias_is_added_to_the_scores_of_the_fused_kernel(
    sizes: tuple[int, int],
    learned: bool,
    causal: bool,
    mask: str,
    of_keys: bool,
    leading: tuple[int, ...],
) -> None:
    T, S = sizes
    given, allowed = inputs(T, S, 2), visible(mask, (B, H, T, S))
    shape = (*leading, 1 if of_keys else T, S)
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=learned)
    fused = fused_attention(*given, scale=SCALE, mask=allowed, bias=bias, causal=causal)
    q, k, v = given
    allowed = with_past(allowed, causal, T, S)
    written = explicit_attention(dot(q, k, SCALE) + bias, v, mask=allowed)[0]
    beside = explicit_attention(dot(q, k, SCALE), v, mask=allowed, bias=bias)[0]
    leaves = [*given, bias] if learned else given
    assert_same((fused, beside), (written, written), *leaves)


@pytest.mark.parametrize("width", [2, 9])
@pytest.mark.parametrize("groups", [4, 1])
def test_values_of_another_width_than_keys_stay_on_the_flash_kernel(
    width: int, groups: int
) -> None:
    q, k, _ = inputs(5, 9, groups)
    v = torch.randn(B, groups, 9, width, dtype=torch.float64, requires_grad=True)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        fused = fused_attention(q, k, v, scale=SCALE, causal=True)
        assert_same(fused, explicit([q, k, v], None, True), q, k, v)

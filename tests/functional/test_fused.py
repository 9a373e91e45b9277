"""The fused kernel is the written-out formula, gradients included."""

from typing import NamedTuple

import pytest
import torch
from helpers.builders import assert_equal, gradients
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2seq.functional import causal_mask, explicit_attention, fused_attention
from seq2seq.functional.scores import dot

B, H, D, M = 2, 4, 6, 6
SCALE = D**-0.5


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor


def inputs(queries: int, keys: int, groups: int, dtype: torch.dtype = torch.float64) -> Inputs:
    shapes = (B, H, queries, D), (B, groups, keys, D), (B, groups, keys, M)
    return Inputs(*(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes))


def explicit(given: Inputs, mask: Tensor | None, causal: bool) -> Tensor:
    """The reference: the queries are the last T of S positions if causal."""
    if causal:
        T, S = given.q.shape[2], given.k.shape[2]
        past = causal_mask(T, S, S - T)
        mask = past if mask is None else mask & past
    return explicit_attention(dot(given.q, given.k, SCALE), given.v, mask=mask)[0]


def visible(kind: str, queries: int, keys: int) -> Tensor | None:
    """Masks: of padding, of anything, and with rows that may attend to nothing."""
    if kind == "none":
        return None
    if kind == "padding":
        return (torch.arange(keys) < torch.tensor([[keys], [keys // 2 + 1]]))[:, None, None]
    mask = torch.rand(B, 1, queries, keys) < 0.6
    mask[0, :, -1] = False
    if kind == "empty":
        mask[1] = False
    return mask


@pytest.mark.parametrize("mask", ["none", "padding", "any", "empty"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 7), (65, 65), (1, 7), (3, 7), (7, 65)], ids=str)
def test_fused_equals_explicit_with_gradients(
    sizes: tuple[int, int], groups: int, causal: bool, mask: str
) -> None:
    given, allowed = inputs(*sizes, groups), visible(mask, *sizes)
    fused = fused_attention(*given, scale=SCALE, mask=allowed, causal=causal)
    expected = explicit(given, allowed, causal)
    assert_equal(fused, expected)
    slope = torch.randn_like(fused)
    assert_equal(
        gradients((fused * slope).sum(), *given), gradients((expected * slope).sum(), *given)
    )


def test_a_fused_query_without_any_key_gets_zeros_and_finite_gradients() -> None:
    given = inputs(3, 5, 2)
    mask = torch.zeros(B, 1, 1, 5, dtype=torch.bool)
    out = fused_attention(*given, scale=SCALE, mask=mask, causal=True)
    assert not out.any()
    for slope in gradients(out.sum(), *given):
        assert not slope.any()


@pytest.mark.parametrize("with_gradient", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_fused_equals_explicit_in_bfloat16_under_autocast(
    causal: bool, with_gradient: bool
) -> None:
    given = inputs(5, 9, 2, torch.float32)
    low = Inputs(*(x.bfloat16() for x in given))
    mask = visible("any", 5, 9)
    reference = explicit(Inputs(*(x.float() for x in low)), mask, causal)
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
    given, allowed = inputs(T, S, 2), visible(mask, T, S)
    shape = (*leading, 1 if of_keys else T, S)
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=learned)
    fused = fused_attention(*given, scale=SCALE, mask=allowed, bias=bias, causal=causal)
    if causal:
        past = causal_mask(T, S, S - T)
        allowed = past if allowed is None else allowed & past
    written = explicit_attention(dot(given.q, given.k, SCALE) + bias, given.v, mask=allowed)[0]
    scores = dot(given.q, given.k, SCALE)
    beside = explicit_attention(scores, given.v, mask=allowed, bias=bias)[0]
    assert_equal(fused, written)
    assert_equal(beside, written)
    leaves = (*given, bias) if learned else given
    slope = torch.randn_like(fused)
    expected = gradients((written * slope).sum(), *leaves)
    assert_equal(gradients((fused * slope).sum(), *leaves), expected)
    assert_equal(gradients((beside * slope).sum(), *leaves), expected)


def test_a_query_without_any_key_gets_zeros_with_a_bias_too() -> None:
    given, bias = inputs(3, 5, 2), torch.randn(H, 3, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(B, 1, 1, 5, dtype=torch.bool)
    out = fused_attention(*given, scale=SCALE, mask=mask, bias=bias)
    assert not out.any()
    for slope in gradients(out.sum(), *given, bias):
        assert not slope.any()


@pytest.mark.parametrize("width", [2, 9])
@pytest.mark.parametrize("groups", [4, 1])
def test_values_of_another_width_than_keys_stay_on_the_flash_kernel(
    width: int, groups: int
) -> None:
    q, k, _ = inputs(5, 9, groups)
    v = torch.randn(B, groups, 9, width, dtype=torch.float64, requires_grad=True)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        fused = fused_attention(q, k, v, scale=SCALE, causal=True)
        slope = torch.randn_like(fused)
        slopes = gradients((fused * slope).sum(), q, k, v)
    expected = explicit(Inputs(q, k, v), None, causal=True)
    assert_equal(fused, expected)
    assert_equal(slopes, gradients((expected * slope).sum(), q, k, v))

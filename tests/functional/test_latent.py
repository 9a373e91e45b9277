"""Latent attention in its two forms, compared with loops over single elements."""

import itertools
import math
from functools import partial

import pytest
import torch
from helpers.builders import assert_equal, gradients
from helpers.gradients import assert_same, held_for_the_gradient
from torch import Tensor

from seq2seq.functional.latent import absorbing_is_cheaper, latent_attention, rms_norm

B, H, T, S, C, DN, M = 2, 3, 4, 7, 5, 6, 2
FORMS = {"absorbed": (True, False), "expanded": (False, False), "fused": (False, True)}


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def inputs(turned: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, latent, wk, wv with a shared part of the keys of width `turned`."""
    return (
        randn(B, H, T, DN + turned),
        randn(B, 1, S, C + turned),
        randn(H, DN, C),
        randn(H, M, C),
    )


def slowly(
    q: Tensor, latent: Tensor, wk: Tensor, wv: Tensor, visible: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """The expanded formula, one query and one head at a time."""
    out, weights = torch.zeros(B, H, T, M).double(), torch.zeros(B, H, T, S).double()
    for b, h, t in itertools.product(range(B), range(H), range(T)):
        seen = [s for s in range(S) if visible[b, t, s]]
        if not seen:
            continue
        scores = []
        for s in seen:
            c, shared = latent[b, 0, s, :C], latent[b, 0, s, C:]
            key = torch.cat((wk[h] @ c, shared))
            scores.append(q[b, h, t] @ key / math.sqrt(len(key)) + bias[h, t, s])
        of_seen = torch.stack(scores).softmax(0)
        values = torch.stack([wv[h] @ latent[b, 0, s, :C] for s in seen])
        out[b, h, t] = of_seen @ values
        weights[b, h, t, seen] = of_seen
    return out, weights


def visibility(kind: str) -> tuple[Tensor | None, bool, Tensor]:
    """The arguments `mask` and `causal`, and the same visibility as one mask (B, T, S)."""
    everything = torch.ones(B, T, S, dtype=torch.bool)
    past = torch.arange(S) <= torch.arange(S - T, S)[:, None]
    padding = torch.arange(S) < torch.tensor([S, 3])[:, None]
    if kind == "padding":
        return padding[:, None, None], False, everything & padding[:, None]
    if kind == "causal":
        return None, True, everything & past
    if kind == "empty row":
        padding = torch.arange(S) < torch.tensor([0, S])[:, None]
        return padding[:, None, None], True, everything & past & padding[:, None]
    return None, False, everything


@pytest.mark.parametrize("turned", [0, 4])
@pytest.mark.parametrize("kind", ["all", "padding", "causal", "empty row"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_computes_the_formula_and_its_gradients(
    form: str, kind: str, turned: int
) -> None:
    leaves, bias = inputs(turned), randn(H, T, S)
    mask, causal, visible = visibility(kind)
    absorbed, fused = FORMS[form]
    out, weights = latent_attention(
        *leaves, absorbed=absorbed, fused=fused, mask=mask, bias=bias, causal=causal
    )
    expected, expected_weights = slowly(*leaves, visible, bias)
    assert_same(out, expected, *leaves, bias)
    assert (weights is None) == fused
    if weights is not None:
        assert_equal(weights, expected_weights)


def test_the_absorbed_form_holds_no_keys_and_values_of_heads() -> None:
    keys = 50
    q, latent = randn(1, 8, 1, 16), randn(1, 1, keys, 12)
    wk, wv = randn(8, 16, 12), randn(8, 16, 12)
    expanded, absorbed = (
        max(held_for_the_gradient(partial(latent_attention, q, latent, wk, wv, absorbed=form)))
        for form in (False, True)
    )
    assert expanded == 8 * keys * 16
    assert absorbed == max(keys * 12, wk.numel())


def test_the_cheaper_form_is_counted_right() -> None:
    for t, s, c, dn, m in itertools.product((1, 3, 9), (1, 5, 40), (2, 8, 30), (4, 8), (4, 6)):
        expanded = s * (dn + m) * c + t * s * (dn + m)
        absorbed = t * dn * c + t * s * c + t * s * c + t * m * c
        cheaper = absorbed < expanded and t * s <= s * (dn + m)
        assert absorbing_is_cheaper(t, s, c, dn + m) == cheaper


def test_one_query_absorbs_and_a_sequence_that_attends_to_itself_expands() -> None:
    for length in (16, 64, 256, 4096):
        assert absorbing_is_cheaper(1, length, 256, 128)
        assert not absorbing_is_cheaper(length, length, 256, 128)
    # However narrow the latents are: their form would hold T x S weights.
    assert not absorbing_is_cheaper(4096, 4096, 1, 128)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_is_computed_in_float32_and_keeps_the_type(dtype: torch.dtype) -> None:
    x = (1000 * torch.randn(3, 5)).to(dtype)
    actual = rms_norm(x, torch.full((5,), 2.0, dtype=dtype))
    wide = x.double()
    expected = 2 * wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert actual.dtype is dtype
    assert_equal(actual, expected.to(dtype))


def test_a_vector_of_zeros_has_a_norm_with_a_gradient() -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    out = rms_norm(x, torch.ones(4))
    assert not out.any()
    (slope,) = gradients(out.sum(), x)
    assert_equal(slope, torch.full((2, 4), 1e3), 1e-2)


def test_latents_that_do_not_suit_the_queries_are_refused() -> None:
    q, latent, wk, wv = inputs(4)
    with pytest.raises(ValueError, match="expected one head of width 9"):
        latent_attention(q, latent[..., :-1], wk, wv, absorbed=True)
    with pytest.raises(ValueError, match="expected one head of width 9"):
        latent_attention(q, latent.expand(-1, 2, -1, -1), wk, wv, absorbed=True)
    with pytest.raises(ValueError, match="wv has shape"):
        latent_attention(q, latent, wk, wv[:2], absorbed=False)

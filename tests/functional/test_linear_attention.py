"""Linear attention, compared with its sums token by token, and the memory it takes."""

import math
from typing import Any

import pytest
import torch
from helpers.builders import assert_equal, gradients, mask_of
from helpers.gradients import assert_same, held_for_the_gradient
from torch import Tensor

from seq2seq.functional import linear
from seq2seq.functional.efficient import (
    efficient_attention,
    efficient_context,
    efficient_weights,
)
from seq2seq.functional.features import ELU, FeatureMap, elu_features, favor_map, log_features
from seq2seq.functional.linear import (
    causal_linear_attention,
    key_sums,
    linear_attention,
    linear_weights,
)

B, H, D, M, F = 2, 3, 4, 5, 7
W = torch.randn(F, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def elu_plus_one(x: Tensor) -> Tensor:
    return torch.nn.functional.elu(x) + 1


def positive(x: Tensor) -> Tensor:
    return log_features(x, W).exp() / math.sqrt(F)


# Each feature map, and its formula.
MAPS: dict[str, tuple[FeatureMap, Any]] = {
    "elu": (ELU, elu_plus_one),
    "favor": (favor_map(W), positive),
}
every_map = pytest.mark.parametrize("name", MAPS)


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def qkv(T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
    return randn(B, H, T, D), randn(B, H, S, D), randn(B, H, S, M)


def by_hand(
    phi: Any, eps: float, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, causal: bool
) -> Tensor:
    """The formula in loops over sentences, queries and keys."""
    rows = []
    for b in range(B):
        for i in range(q.shape[2]):
            top = torch.zeros(H, M, dtype=torch.float64)
            bottom = torch.full((H, 1), eps, dtype=torch.float64)
            for j in range(i + 1 if causal else k.shape[2]):
                if mask[b, j]:
                    weight = (phi(q)[b, :, i] * phi(k)[b, :, j]).sum(-1, keepdim=True)
                    top, bottom = top + weight * v[b, :, j], bottom + weight
            rows.append(top / bottom)
    return torch.stack(rows).view(B, -1, H, M).transpose(1, 2)


@every_map
def test_all_keys_at_once_give_the_sums_by_hand(name: str) -> None:
    (phi, formula), (q, k, v) = MAPS[name], qkv(3, 6)
    mask = mask_of([6, 2], 6)
    out = linear_attention(phi, q, key_sums(phi, k, v, mask))
    expected = by_hand(formula, phi.eps, q, k, v, mask, causal=False)
    assert_same(out, expected, q, k, v)
    assert_equal(linear_weights(phi, q, k, mask) @ v, out)


@every_map
@pytest.mark.parametrize("segment, chunk", [(100, 100), (100, 3), (4, 3), (3, 1)])
def test_the_causal_form_gives_the_sums_by_hand_for_any_size_of_parts(
    name: str, segment: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "SEGMENT", segment)
    monkeypatch.setattr(linear, "CHUNK", chunk)
    (phi, formula), (q, k, v) = MAPS[name], qkv(7, 7)
    mask = torch.ones(B, 7, dtype=torch.bool)
    mask[1, :2] = mask[1, 5] = False  # two queries of this row see nothing
    out, sums = causal_linear_attention(phi, q, k, v, mask)
    expected = by_hand(formula, phi.eps, q, k, v, mask, causal=True)
    assert_same(out, expected, q, k, v)
    assert not out[1, :, :2].any()
    assert_equal(sums, key_sums(phi, k, v, mask))
    assert_equal(linear_weights(phi, q, k, mask, causal=True) @ v, out)


@every_map
@pytest.mark.parametrize("split", [[1] * 9, [2, 4, 3], [8, 1]])
def test_tokens_may_come_in_any_pieces(name: str, split: list[int]) -> None:
    (phi, _), (q, k, v) = MAPS[name], qkv(9, 9)
    whole, after = causal_linear_attention(phi, q, k, v)
    sums, outs = None, []
    for part in zip(*(x.split(split, dim=2) for x in (q, k, v)), strict=True):
        out, sums = causal_linear_attention(phi, *part, before=sums)
        outs.append(out)
    assert_equal(torch.cat(outs, dim=2), whole)
    assert_equal(sums, after)


def test_two_keys_give_the_fractions_of_pencil_and_paper() -> None:
    # phi(1) = 2, phi(0) = 1, phi(3) = 4: weights 2 * 1 and 2 * 4 of 10.
    q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[0.0], [3.0]]]])
    v = torch.tensor([[[[10.0], [20.0]]]])
    assert_equal(linear_weights(ELU, q, k), torch.tensor([[[[0.2, 0.8]]]]))
    assert_equal(linear_attention(ELU, q, key_sums(ELU, k, v)), torch.tensor([[[[18.0]]]]))


def test_the_branch_that_elu_does_not_take_has_no_gradient() -> None:
    x = torch.tensor([-2.0, 0.0, 1.0, 1e4], requires_grad=True)
    phi = elu_features(x)
    assert_equal(phi.detach(), torch.tensor([math.exp(-2), 1.0, 2.0, 10001.0]))
    (slope,) = gradients(phi.sum(), x)
    assert_equal(slope, torch.tensor([math.exp(-2), 1.0, 1.0, 1.0]))


def test_features_and_sums_of_bfloat16_are_float32_also_under_autocast() -> None:
    # elu(x) + 1 in bfloat16 is 0 at -10; a sum of ones in bfloat16 stops at 256.
    assert elu_features(torch.tensor([-10.0]).bfloat16()).item() == pytest.approx(math.exp(-10))
    k, v = torch.zeros(1, 1, 4096, 1).bfloat16(), torch.ones(1, 1, 4096, 1).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        sums = key_sums(ELU, k, v)
        out, after = causal_linear_attention(ELU, k, k, v)
    assert sums.total.tolist() == after.total.tolist() == [[[[4096.0, 4096.0]]]]
    assert_equal(out, torch.ones_like(out))


@every_map
@pytest.mark.parametrize("causal", [False, True])
def test_memory_for_the_gradient_grows_linearly_with_the_length(name: str, causal: bool) -> None:
    phi, _ = MAPS[name]
    held = []
    for T in (2048, 4096):
        q, k, v = (x.requires_grad_() for x in torch.randn(3, 1, 1, T, D, dtype=torch.float64))

        def attend(q: Tensor = q, k: Tensor = k, v: Tensor = v) -> object:
            if causal:
                return causal_linear_attention(phi, q, k, v)
            return linear_attention(phi, q, key_sums(phi, k, v))

        held.append(sum(held_for_the_gradient(attend)))
    # Besides q, k and v: sums of every 1024 tokens, no features, nothing of T x T.
    assert held[1] <= 2.2 * held[0] and held[1] < 8 * 4096 * D


def test_efficient_attention_equals_its_two_softmaxes_by_hand() -> None:
    q, k, v = qkv(3, 6)
    mask = mask_of([6, 2], 6)
    out = efficient_attention(q, efficient_context(k, v, mask))
    rows = []
    for b, length in enumerate([6, 2]):
        for h in range(H):
            channels = [k[b, h, :length, d].exp() for d in range(D)]
            means = [(e / e.sum()) @ v[b, h, :length] for e in channels]
            mix = q[b, h].exp() / q[b, h].exp().sum(-1, keepdim=True)
            rows.append(sum(mix[:, d : d + 1] * means[d] for d in range(D)))
    expected = torch.stack(rows).view(B, H, 3, M)
    assert_same(out, expected, q, k, v)
    weights = efficient_weights(q, k, mask)
    assert_equal(weights @ v, out)
    assert_equal(weights.sum(-1), torch.ones(B, H, 3, dtype=torch.float64))


def test_a_source_of_padding_only_is_zero_with_finite_gradients() -> None:
    q, k, v = qkv(3, 6)
    mask = mask_of([6, 0], 6)
    for phi, _ in MAPS.values():
        out = linear_attention(phi, q, key_sums(phi, k, v, mask))
        assert not out[1].any()
        assert all(slope.isfinite().all() for slope in gradients(out.sum(), q, k, v))
    out = efficient_attention(q, efficient_context(k, v, mask))
    assert not out[1].any()
    assert all(slope.isfinite().all() for slope in gradients(out.sum(), q, k, v))


def test_shapes_that_disagree_are_refused_by_name() -> None:
    q, k, v = qkv(3, 6)
    with pytest.raises(ValueError, match="k has shape"):
        causal_linear_attention(ELU, q, k, v)
    with pytest.raises(ValueError, match="v has shape"):
        key_sums(ELU, k, v[:, :, :2])

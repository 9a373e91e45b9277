"""Multi-head attention, the softmax family."""

from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, composed, gradients, mask_of, position_scheme, randomised
from helpers.gradients import assert_same, held_for_the_gradient
from torch import nn

from seq2seq.attention import Place, Role
from seq2seq.attention.base import positions_of
from seq2seq.attention.multihead import MultiHead, default_kv_heads
from seq2seq.attention.scores import Additive
from seq2seq.base.errors import ConfigError
from seq2seq.functional import flash


def multihead(role: Role = Role.CROSS, source_dim: int = DIM, **options: Any) -> MultiHead:
    return randomised(MultiHead(Place(role, DIM, source_dim), **{"num_heads": 4, **options}))


def linears(attention: MultiHead) -> list[nn.Linear]:
    """The four projections: of queries, keys, values and the output."""
    layers = attention.q, attention.k, attention.v, attention.out
    return [linear for linear in layers if isinstance(linear, nn.Linear)]


@pytest.mark.parametrize("kernel", ["explicit", "fused", "flash"])
def test_multi_head_attention_equals_that_of_torch(kernel: Any) -> None:
    ours = multihead(num_kv_heads=4, bias=True, kernel=kernel, source_dim=20)
    torchs = nn.MultiheadAttention(DIM, 4, kdim=20, vdim=20, batch_first=True).double()
    q, k, v, out = linears(ours)
    with torch.no_grad():
        for name, linear in (("q", q), ("k", k), ("v", v)):
            getattr(torchs, f"{name}_proj_weight").copy_(linear.weight)
        torchs.in_proj_bias.copy_(torch.cat([q.bias, k.bias, v.bias]))
        torchs.out_proj.load_state_dict(out.state_dict())
    x, source, mask = randn(2, 5, DIM), randn(2, 7, 20), mask_of([7, 3], 7)
    x.requires_grad_()
    source.requires_grad_()
    expected, weights = torchs(
        x, source, source, key_padding_mask=~mask, average_attn_weights=False
    )
    assert_equal(ours(x, source, mask, need_weights=True).weights, weights)
    assert_same(ours(x, source, mask).out, expected, x, source)


@pytest.mark.parametrize("groups", [1, 2])
def test_grouped_heads_are_multi_head_attention_with_repeated_keys_and_values(groups: int) -> None:
    shared, full = (multihead(num_kv_heads=g, bias=True) for g in (groups, 4))
    state = shared.state_dict()
    for name in ("k.weight", "k.bias", "v.weight", "v.bias"):
        heads = state[name].unflatten(0, (groups, -1))
        state[name] = heads.repeat_interleave(4 // groups, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x, source = randn(2, 5, DIM), randn(2, 7, DIM)
    assert_equal(shared(x, source).out, full(x, source).out)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_only_the_key_and_value_heads_are_remembered(groups: int) -> None:
    remembered = multihead(num_kv_heads=groups).remember(randn(2, 7, DIM), torch.arange(7))
    assert {name: x.shape for name, x in remembered.items()} == {
        "k": (2, 7, groups, 8),
        "v": (2, 7, groups, 8),
    }


def test_the_default_groups_are_the_largest_allowed_divisor() -> None:
    for heads in range(1, 65):
        allowed = [
            g
            for g in range(1, heads + 1)
            if heads % g == 0 and g <= max(2, heads // 4) and (g < heads or heads == 1)
        ]
        assert default_kv_heads(heads) == max(allowed)
    assert MultiHead(Place(Role.CROSS, DIM, DIM), num_heads=8).num_kv_heads == 2


def test_without_projections_values_are_the_states_themselves() -> None:
    attention = multihead(num_heads=1, project=False, score="additive")
    source = randn(2, 7, DIM)
    out, weights = attention(randn(2, 5, DIM), source, need_weights=True)
    assert_equal(out, weights[:, 0] @ source)


def test_without_projections_a_source_may_have_another_width() -> None:
    attention = multihead(num_heads=2, project=False, score="additive", source_dim=12)
    assert attention.out_dim == 12
    assert attention(randn(2, 5, DIM), randn(2, 7, 12)).out.shape == (2, 5, 12)


def test_the_additive_key_projection_is_remembered() -> None:
    attention = multihead(num_heads=1, project=False, score="additive")
    score, source = attention.score, randn(2, 7, DIM)
    assert isinstance(score, Additive)
    expected = source @ score.wk[0].T + score.b[0]
    assert_equal(attention.remember(source, positions_of(source))["k"][:, :, 0], expected)


@pytest.mark.parametrize("kernel", ["explicit", "fused", "flash"])
def test_a_decoder_may_have_holes_in_its_past(kernel: Any) -> None:
    attention = multihead(Role.DECODER, num_kv_heads=2, kernel=kernel)
    x, real = randn(1, 7, DIM), torch.tensor([True, False, True, True, False, True, False])
    out = attention(x, mask=real[None]).out
    assert_equal(out[:, real], attention(x[:, real]).out)


@pytest.mark.parametrize("kernel", ["explicit", "fused", "flash"])
def test_bfloat16_is_near_float64(kernel: Any) -> None:
    attention = multihead(Role.DECODER, num_kv_heads=2, kernel=kernel).bfloat16()
    x = randn(2, 65, DIM).bfloat16()
    low = attention(x).out.double()
    high = attention.double()(x.double()).out
    assert (low - high).norm() < 0.02 * high.norm()


@pytest.mark.parametrize("kernel", ["auto", "flash"])
def test_only_flash_stores_no_weights_under_dropout(kernel: Any) -> None:
    attention = multihead(Role.ENCODER, num_kv_heads=4, kernel=kernel, dropout=0.1).train()
    sizes = held_for_the_gradient(lambda: attention(randn(1, 100, DIM)))
    assert (max(sizes) < 4 * 100 * 100) == (kernel == "flash")


@pytest.mark.parametrize("kernel", ["auto", "flash"])
@pytest.mark.parametrize("score", ["additive", "concat"])
@pytest.mark.parametrize("role", Role)
def test_a_hidden_layer_computed_in_tiles_trains_like_the_explicit_one(
    monkeypatch: pytest.MonkeyPatch, role: Role, score: Any, kernel: Any
) -> None:
    monkeypatch.setattr(flash, "FEW_ELEMENTS", 0)
    monkeypatch.setattr(flash, "CACHED", 3 * DIM)
    options: dict[str, Any] = {"score": score, "num_kv_heads": 2, "bias": True}
    written, tiled = (multihead(role, kernel=which, **options) for which in ("explicit", kernel))
    tiled.load_state_dict(written.state_dict())
    x, source = randn(3, 7, DIM), randn(3, 9, DIM)
    given = (x, source, mask_of([9, 4, 1], 9)) if role is Role.CROSS else (x,)
    expected = written(*given).out
    with monkeypatch.context() as without:
        without.delattr("seq2seq.attention.multihead.explicit_attention")
        out = tiled(*given).out
    assert_equal(out, expected, 1e-12)
    slope = torch.randn_like(out)
    wanted = gradients((expected * slope).sum(), *written.parameters())
    assert_equal(gradients((out * slope).sum(), *tiled.parameters()), wanted, 1e-12)
    weights = tiled(*given, need_weights=True).weights
    assert_equal(weights, written(*given, need_weights=True).weights)


def test_with_rotations_an_answer_depends_on_distances_only() -> None:
    place = Place(Role.DECODER, DIM, DIM, position_scheme("rope"))
    attention = randomised(MultiHead(place, num_heads=4))
    x, outs = randn(2, 7, DIM), []
    for start in (0, 1000):
        positions = torch.arange(start, start + 7)
        outs.append(attention.advance(x, attention.new_memory(), positions))
    assert_equal(outs[0], outs[1], 1e-7)
    still = attention.advance(x, attention.new_memory(), torch.zeros(7))
    assert not torch.allclose(still, outs[0])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_heads": 5}, r"num_heads=5 does not divide dim=32\. Choose dim=30, or num_heads=4"),
        ({"num_heads": 0}, r"num_heads=0 does not divide dim=32\. .* or num_heads=1 "),
        (
            {"num_kv_heads": 3},
            r"num_kv_heads=3 does not divide num_heads=4\. Choose one of 1, 2, 4",
        ),
        ({"num_kv_heads": 0}, r"num_kv_heads=0 does not divide num_heads=4"),
        ({"num_kv_heads": 2, "project": False}, "num_kv_heads"),
        ({"dropout": -0.1}, r"attn.dropout=-0.1 should be in \[0, 1\)"),
        ({"dropout": 1.0}, r"attn.dropout=1.0 should be in \[0, 1\)"),
        ({"score": "dott"}, r"unknown score 'dott'; did you mean 'dot'\?"),
        ({"score": "additive", "kernel": "fused"}, r"score=additive.* Take kernel=auto"),
        (
            {"score": "concat_linear", "kernel": "flash"},
            r"flash cannot compute score=concat_linear.* Take kernel",
        ),
    ],
)
def test_impossible_options_are_refused_with_possible_ones(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        multihead(**options)


def test_rotations_of_an_odd_head_width_are_refused() -> None:
    place = Place(Role.ENCODER, 28, 28, position_scheme("rope"))
    with pytest.raises(ConfigError, match="even head width, not 7"):
        MultiHead(place, num_heads=4)


@pytest.mark.parametrize("preset", ["mha", "mqa", "gqa", "flash", "dot", "additive"])
def test_a_mechanism_has_its_usual_name(preset: str) -> None:
    assert MultiHead.label(composed("model=transformer", f"attn={preset}")["attn"]) == preset


def test_a_single_head_is_not_called_multi_query() -> None:
    assert MultiHead.label(composed("model=rnn", "attn=scaled_dot")["attn"]) != "mqa"

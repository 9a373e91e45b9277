"""Multi-head latent attention."""

import math
from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import position_scheme, randomised
from helpers.gradients import assert_same
from torch import Tensor

from seq2seq.attention import Place, Role
from seq2seq.attention import latent as module
from seq2seq.attention.base import Encoded
from seq2seq.attention.latent import Latent
from seq2seq.base.errors import ConfigError
from seq2seq.functional.positions import rotate

WIDTHS = {"latent_dim": 11, "nope_dim": 6, "value_dim": 5}


def latent(
    role: Role = Role.DECODER, position: str = "none", source_dim: int = DIM, **options: Any
) -> Latent:
    scheme = position_scheme(position, role is Role.DECODER)
    place = Place(role, DIM, source_dim, None if scheme.hook is None else scheme)
    return randomised(Latent(place, **{"num_heads": 4, **options}))


def normalised(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def turned(x: Tensor) -> Tensor:
    """Rotate each row of (T, Dr) by its position."""
    return rotate(x[None, None], torch.arange(len(x)))[0, 0]


def slowly(attention: Latent, x: Tensor, source: Tensor, causal: bool) -> Tensor:
    """The formula of the paper for one row, head by head and query by query."""
    of = dict(attention.named_parameters())
    heads, dn, dr = attention.num_heads, attention.nope_dim, attention.rope_dim
    cq = normalised(x @ of["q_down.weight"].T, of["q_gain"]) if "q_gain" in of else x
    c = normalised(source @ of["kv_down.weight"].T, of["kv_gain"])
    joined = []
    for h in range(heads):
        wq = of["q.weight"].chunk(heads)[h]
        q, v = cq @ wq.T, c @ of["v_up.weight"].chunk(heads)[h].T
        qn, kn = q[:, :dn], c @ of["k_up.weight"].chunk(heads)[h].T
        scores = qn @ kn.T
        if dr:
            scores = scores + turned(q[:, dn:]) @ turned(source @ of["k_rope.weight"].T).T
        rows = []
        for i, row in enumerate(scores / math.sqrt(dn + dr)):
            seen = i + 1 if causal else len(source)
            rows.append(row[:seen].softmax(0) @ v[:seen])
        joined.append(torch.stack(rows))
    return torch.cat(joined, dim=-1) @ of["out.weight"].T


@pytest.mark.parametrize("query_dim", [None, 7])
@pytest.mark.parametrize(
    ("role", "position"),
    [(Role.ENCODER, "rope"), (Role.DECODER, "rope"), (Role.DECODER, "none"), (Role.CROSS, "none")],
)
def test_latent_attention_follows_the_formula_of_the_paper(
    role: Role, position: str, query_dim: int | None
) -> None:
    cross = role is Role.CROSS
    attention = latent(role, position, 20 if cross else DIM, query_dim=query_dim, **WIDTHS)
    x = randn(2, 9, DIM).requires_grad_()
    source = randn(2, 6, 20).requires_grad_() if cross else x
    out = attention(x, source if cross else None).out
    rows = [slowly(attention, a, b, role is Role.DECODER) for a, b in zip(x, source, strict=True)]
    expected = torch.stack(rows)
    assert_same(out, expected, x, source, *attention.parameters())


def test_a_whole_sequence_is_expanded_and_a_step_absorbed(monkeypatch: pytest.MonkeyPatch) -> None:
    forms: list[bool] = []
    original = module.latent_attention

    def spy(*given: Any, absorbed: bool, **options: Any) -> Any:
        forms.append(absorbed)
        return original(*given, absorbed=absorbed, **options)

    monkeypatch.setattr(module, "latent_attention", spy)
    x = randn(2, 40, DIM)
    attention, cross = latent(position="rope"), latent(Role.CROSS)
    attention(x)
    cross(x, x)
    assert forms == [False, False]
    memory = attention.new_memory()
    attention.advance(x[:, :39], memory, torch.arange(39))
    forms.clear()
    attention.advance(x[:, 39:], memory, torch.arange(39, 40))
    cross.attend_beams(
        x[:, :1].repeat_interleave(4, 0), cross.memory_of(Encoded(x)), torch.arange(1)
    )
    assert forms == [True, True]


@pytest.mark.parametrize(("position", "width"), [("rope", 11 + 4), ("alibi", 11), ("none", 11)])
def test_a_token_is_remembered_as_one_latent_and_one_rotary_key(position: str, width: int) -> None:
    attention, x = latent(position=position, latent_dim=11), randn(3, 9, DIM)
    memory = attention.new_memory()
    attention.advance(x, memory, torch.arange(9))
    assert memory.nbytes == 3 * 9 * width * x.element_size()
    cross = latent(Role.CROSS, latent_dim=11, rope_dim=4)
    assert cross.memory_of(Encoded(x)).nbytes == 3 * 9 * 11 * x.element_size()


@pytest.mark.parametrize(
    ("heads", "source_dim", "expected"), [(4, DIM, 32), (8, DIM, 16), (1, 20, 20), (16, 4, 4)]
)
def test_a_latent_is_four_heads_wide_but_no_wider_than_the_source(
    heads: int, source_dim: int, expected: int
) -> None:
    attention = Latent(Place(Role.CROSS, DIM, source_dim), num_heads=heads)
    assert attention.latent_dim == expected


def test_only_the_rotary_part_is_rotated() -> None:
    attention, x = latent(position="rope"), randn(1, 6, DIM)
    near, far = (attention.remember(x, torch.arange(6) + start)["latent"] for start in (0, 9))
    still = attention.latent_dim
    assert torch.equal(near[..., :still], far[..., :still])
    assert (near[..., still:] - far[..., still:]).abs().max() > 0.1


@pytest.mark.parametrize("bias", [False, True])
def test_only_projections_from_and_to_the_width_of_the_model_have_biases(bias: bool) -> None:
    names = {n for n, _ in latent(position="rope", bias=bias).named_parameters() if "bias" in n}
    inner = {f"{name}.bias" for name in ("q", "kv_down", "k_rope", "out")}
    assert names == (inner if bias else set())
    names = {n for n, _ in latent(query_dim=7, bias=bias).named_parameters() if "bias" in n}
    assert names == ({"q_down.bias", "kv_down.bias", "out.bias"} if bias else set())


def test_projections_start_as_xavier_and_the_gains_at_one() -> None:
    place = Place(Role.ENCODER, 128, 128, position_scheme("rope", dim=128))
    attention = Latent(place, num_heads=4, query_dim=64)
    for name, parameter in attention.named_parameters():
        if name.endswith("gain"):
            assert torch.equal(parameter, torch.ones_like(parameter))
        else:
            outputs, inputs = parameter.shape
            assert parameter.var().item() == pytest.approx(2 / (inputs + outputs), rel=0.1)


@pytest.mark.parametrize("position", ["rope", "none"])
def test_a_step_in_bfloat16_is_near_the_whole_in_float32(position: str) -> None:
    attention, x = latent(position=position), randn(2, 33, DIM)
    expected = attention.float()(x.float()).out
    low = attention.bfloat16()
    memory = low.new_memory()
    with torch.no_grad():
        steps = [
            low.advance(token, memory, torch.tensor([at]))
            for at, token in enumerate(x.bfloat16().split(1, dim=1))
        ]
    actual = torch.cat(steps, dim=1).float()
    assert (actual - expected).abs().max() < 2e-2 * expected.abs().max()


@pytest.mark.parametrize(
    ("position", "options", "message"),
    [
        ("none", {"rope_dim": 4}, r"attn.rope_dim=4 .* Take position=rope, or attn.rope_dim=null"),
        ("alibi", {"rope_dim": 4}, r"attn.rope_dim=4 .* Take position=rope"),
        ("rope", {"rope_dim": 5}, r"attn.rope_dim=5 should be even.* Take attn.rope_dim=4"),
        ("rope", {"rope_dim": 0}, r"attn.rope_dim=0 should be .*at least 2.* Take attn.rope_dim=2"),
        ("rope", {"rope_dim": -2}, r"attn.rope_dim=-2 should be .*at least 2"),
        ("none", {"rope_dim": -2}, r"attn.rope_dim=-2"),
        ("rope", {"num_heads": 16}, r"attn.rope_dim=D/2=1 should be even.* Take attn.rope_dim=2"),
        ("none", {"num_heads": 5}, "num_heads=5 does not divide dim=32"),
        ("t5", {"num_heads": 2}, "scores of 4 heads"),
        ("none", {"latent_dim": 0}, "attn.latent_dim=0 should be at least 1"),
        ("none", {"query_dim": 0}, "attn.query_dim=0 should be at least 1"),
        ("none", {"nope_dim": 0}, "attn.nope_dim=0 should be at least 1"),
        ("none", {"value_dim": 0}, "attn.value_dim=0 should be at least 1"),
        ("none", {"dropout": 1.0}, r"attn.dropout=1.0 should be in \[0, 1\)"),
    ],
)
def test_impossible_widths_are_refused_with_a_possible_one(
    position: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        latent(position=position, **options)

"""Linformer as a layer: its matrices, what it remembers, and the longest source it can read."""

from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, gradients, mask_of, randomised, small_model, source_batch

from seq2seq.attention import Place, Role
from seq2seq.attention.base import Encoded
from seq2seq.attention.heads import split_heads
from seq2seq.attention.linformer import Linformer
from seq2seq.base.errors import ConfigError
from seq2seq.decoding import Greedy, decode
from seq2seq.functional.lowrank import project_length

H = 4


def build(role: Role = Role.CROSS, **options: Any) -> Linformer:
    given = {"num_heads": H, "rank": 3, "length": 9, **options}
    return randomised(Linformer(Place(role, DIM, DIM), **given))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("share", ["none", "heads", "key_value"])
def test_the_layer_follows_its_formula(share: str, bias: bool) -> None:
    layer, x, source = build(share=share, bias=bias), randn(2, 5, DIM), randn(2, 7, DIM)
    mask = mask_of([7, 4], 7)

    def heads(of: torch.Tensor) -> torch.Tensor:
        return of.unflatten(-1, (H, -1)).transpose(1, 2)

    q, k, v = heads(layer.q(x)), heads(layer.k(source)), heads(layer.v(source))
    e = layer.E
    f = e if layer.F is None else layer.F
    mixed_k, mixed_v = project_length(k, e, mask), project_length(v, f, mask)
    out = (q @ mixed_k.mT / (DIM // H) ** 0.5).softmax(-1) @ mixed_v
    assert_equal(layer(x, source, mask).out, layer.out(out.transpose(1, 2).flatten(2)))


def test_matrices_are_shared_as_the_option_says() -> None:
    shapes = {
        share: {n: tuple(p.shape) for n, p in build(share=share).named_parameters() if n in "EF"}
        for share in ("none", "heads", "key_value")
    }
    assert shapes == {
        "none": {"E": (H, 3, 9), "F": (H, 3, 9)},
        "heads": {"E": (1, 3, 9), "F": (1, 3, 9)},
        "key_value": {"E": (1, 3, 9)},
    }


def test_a_fresh_layer_keeps_the_tokens_of_a_short_sentence_unmixed() -> None:
    layer = Linformer(Place(Role.ENCODER, DIM, DIM), num_heads=H, rank=6, length=14).double()
    for S in (1, 4, 6):
        state = layer.memory_of(Encoded(x := randn(2, S, DIM))).state
        for name, project in (("k", layer.k), ("v", layer.v)):
            assert_equal(state[name][:, :, :S], split_heads(project(x), H))
            assert not state[name][:, :, S:].any()
    # In a longer one, slot i holds the tokens at the positions i, i + rank, i + 2 rank, ...
    state = layer.memory_of(Encoded(x := randn(2, 14, DIM))).state
    v = split_heads(layer.v(x), H)
    assert_equal(state["v"][:, :, 1], v[:, :, 1] + v[:, :, 7] + v[:, :, 13])


@pytest.mark.parametrize("role", [Role.ENCODER, Role.CROSS])
def test_what_is_remembered_does_not_grow_with_the_source(role: Role) -> None:
    layer = build(role, length=40)
    sizes = {S: layer.memory_of(Encoded(randn(2, S, DIM))).nbytes for S in (1, 7, 40)}
    assert set(sizes.values()) == {2 * 2 * 3 * DIM * 8}  # rows, E k and F v, rank, heads, bytes


def test_padding_stays_invisible_with_biases() -> None:
    layer, source = build(bias=True), randn(2, 7, DIM)
    mask = mask_of([7, 0], 7)
    memory = layer.memory_of(Encoded(source, mask))
    assert not memory.state["k"][1].any() and not memory.state["v"][1].any()
    # Only the bias of the output is left.
    out = layer(randn(2, 5, DIM), source, mask).out
    assert_equal(out[1], layer.out.bias.expand(5, DIM))


def test_it_mixes_positions_so_their_order_matters() -> None:
    layer, x, source = build(), randn(1, 5, DIM), randn(1, 7, DIM)
    assert not torch.allclose(layer(x, source).out, layer(x, source.flip(1)).out)


def test_a_sequence_as_long_as_the_matrices_is_read_and_a_longer_one_refused() -> None:
    layer, x = build(), randn(2, 5, DIM)
    assert layer.max_length == 9
    source = randn(2, 9, DIM).requires_grad_()
    (slope,) = gradients(layer(x, source).out.sum(), source)
    assert slope[:, -1].any()
    message = r"source of 10 pieces .* than attn\.length=9 .* attn\.length=10"
    with pytest.raises(ConfigError, match=message):
        layer(x, randn(2, 10, DIM))


WITH_LIMIT = [
    ("transformer", "attn=linformer", "attn.length=8", "attn.rank=4"),
    ("transformer", "attn@encoder_attn=linformer", "encoder_attn.length=8", "encoder_attn.rank=4"),
    ("transformer", "attn@cross_attn=linformer", "cross_attn.length=8", "cross_attn.rank=4"),
    ("rnn", "attn=linformer", "attn.length=8", "attn.rank=4"),
    ("rnn_luong", "attn=linformer", "attn.length=8", "attn.rank=4"),
]


@pytest.mark.parametrize("typed", WITH_LIMIT, ids=lambda typed: " ".join(typed[:2]))
def test_a_model_knows_its_longest_source_and_may_write_more(typed: tuple[str, ...]) -> None:
    model = small_model(*typed)
    assert (model.max_source, model.max_length) == (8, None)
    decode(model, source_batch(8, 3), Greedy(length_ratio=0, length_extra=20))
    assert model(source_batch(8), torch.randint(4, 11, (1, 20))).hidden.shape[1] == 20
    with pytest.raises(ConfigError, match=r"source of 20 pieces is longer than attn\.length=8 "):
        decode(model, source_batch(20), Greedy())


def test_the_smallest_limit_is_that_of_the_source() -> None:
    learned = "position=learned", "position.length=6"
    assert small_model("transformer", *learned).max_source == 6
    both = small_model(*WITH_LIMIT[0], *learned)
    assert (both.max_source, both.max_length) == (6, 6)
    assert small_model(*WITH_LIMIT[0], "position=learned").max_source == 8
    assert small_model("transformer").max_source is None

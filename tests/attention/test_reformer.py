"""Reformer: shared queries and keys, buckets, and rings for decoding."""

import random
from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, mask_of, position_scheme, randomised
from torch import Tensor

from seq2seq.attention import Place, Role
from seq2seq.attention.base import Encoded, positions_of
from seq2seq.attention.reformer import Reformer
from seq2seq.functional import explicit_attention
from seq2seq.functional.lsh import hash_buckets, rounds_seen
from seq2seq.functional.positions import distances
from seq2seq.functional.scores import dot

H, D = 4, 8


def reformer(role: Role = Role.DECODER, position: str = "none", **options: Any) -> Reformer:
    scheme = position_scheme(position, role is Role.DECODER)
    place = Place(role, DIM, DIM, None if scheme.hook is None else scheme)
    return randomised(Reformer(place, **{"num_heads": H, **options}))


def heads(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], H, D).transpose(1, 2)


def written_out(attention: Reformer, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Output and weights with T x T scores: e_ij + log n_ij under the softmax."""
    T, position = x.shape[1], attention.place.position
    causal = attention.place.role is Role.DECODER
    qk, v = heads(attention.qk(x)), heads(attention.v(x))
    count = rounds_seen(
        hash_buckets(qk, attention.rotations), attention.chunk, mask=mask, causal=causal
    )
    bias = count.clamp(min=1).double().log()
    if position is not None:  # after hashing
        qk = position.rotate(qk, torch.arange(T))
        added = position.bias(distances(torch.arange(T), T), H)
        bias = bias if added is None else bias + added
    k = qk / qk.norm(dim=-1, keepdim=True)
    out, weights = explicit_attention(dot(qk, k), v, mask=count > 0, bias=bias)
    return attention.out(out.transpose(1, 2).flatten(2)), weights


@pytest.mark.parametrize("kernel", ["explicit", "chunks"])
@pytest.mark.parametrize("position", ["none", "rope", "alibi", "t5"])
@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
def test_reformer_follows_its_formula_with_positions_after_hashing(
    role: Role, position: str, kernel: str
) -> None:
    x, T = randn(3, 33, DIM), 33
    mask = mask_of([T, 9, 1], T) if role is Role.ENCODER else None
    for rounds, chunk in ((1, 16), (3, 1), (2, 3)):
        attention = reformer(
            role, position, num_buckets=4, rounds=rounds, chunk=chunk, bias=True, kernel=kernel
        )
        expected = written_out(attention, x, mask)
        assert_equal(attention(x, mask=mask).out, expected[0])
        assert_equal(tuple(attention(x, mask=mask, need_weights=True)), expected)


@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
@pytest.mark.parametrize("kernel", ["explicit", "chunks"])
def test_one_bucket_is_attention_with_shared_queries_and_keys(role: Role, kernel: str) -> None:
    attention, x = reformer(role, chunk=7, kernel=kernel), randn(2, 7, DIM)
    attention.rotations.zero_()  # no direction is nearer than another: all are in the first bucket
    qk, v = heads(attention.qk(x)), heads(attention.v(x))
    k = qk / qk.norm(dim=-1, keepdim=True)
    others = ~torch.eye(7, dtype=torch.bool)
    if role is Role.DECODER:
        others = others.tril()
        others[0, 0] = True  # the first token has no other to read
    out, weights = explicit_attention(dot(qk, k), v, mask=others)
    assert_equal(attention(x).out, attention.out(out.transpose(1, 2).flatten(2)))
    assert_equal(attention(x, need_weights=True).weights, weights)


@pytest.mark.parametrize("position", ["none", "rope", "alibi", "t5"])
@pytest.mark.parametrize("buckets, rounds, chunk", [(2, 1, 1), (2, 3, 2), (4, 2, 3), (8, 1, 100)])
@torch.no_grad()
def test_full_rings_answer_like_the_whole_sequence(
    buckets: int, rounds: int, chunk: int, position: str
) -> None:
    attention = reformer(
        position=position, num_buckets=buckets, rounds=rounds, chunk=chunk, bias=True
    )
    memory, rows, x = attention.new_memory(), 3, randn(3, 0, DIM)
    for _ in range(8):
        piece = randn(rows, random.choice([1, 1, 2, 7, 11]), DIM)
        x = torch.cat((x, piece), dim=1)
        positions = torch.arange(x.shape[1] - piece.shape[1], x.shape[1])
        step = attention.advance(piece, memory, positions)
        assert_equal(step, attention(x).out[:, -piece.shape[1] :])
        parents = torch.randint(rows, (rows,))
        memory.fork(parents)
        x = x[parents]


@torch.no_grad()
def test_what_a_decoder_remembers_does_not_grow() -> None:
    attention = reformer(num_buckets=4, rounds=3, chunk=5)
    memory = attention.new_memory()
    attention.advance(randn(2, 1, DIM), memory, torch.arange(1))
    first = memory.nbytes
    # Two rows: k and v of two chunks of a bucket, and where they stood; how many there were.
    places = 2 * 3 * H * 4 * 2 * 5
    assert first == 8 * (places * (2 * D + 1) + 2 * 3 * H * 4)
    attention.advance(randn(2, 90, DIM), memory, torch.arange(1, 91))
    assert memory.nbytes == first


def test_the_last_queries_of_a_known_sequence_may_be_asked_alone() -> None:
    attention, x = reformer(), randn(2, 9, DIM)
    whole, memory = attention(x, need_weights=True), attention.memory_of(Encoded(x))
    last = attention.attend(x[:, 6:], memory, torch.arange(6, 9), need_weights=True)
    assert whole.weights is not None
    assert_equal(tuple(last), (whole.out[:, 6:], whole.weights[:, :, 6:]))


@pytest.mark.parametrize("kernel", ["explicit", "chunks"])
def test_padding_in_a_decoder_is_invisible_too(kernel: str) -> None:
    attention, x = reformer(chunk=2, num_buckets=2, kernel=kernel), randn(2, 9, DIM)
    memory = attention.memory_of(Encoded(x, mask_of([9, 5], 9)))
    out = attention.attend(x, memory, positions_of(x)).out
    assert_equal(out[1, :5], attention(x[1:, :5]).out[0])


def test_directions_are_drawn_from_the_default_generator_and_saved_but_not_trained() -> None:
    torch.default_generator.manual_seed(3)
    first = reformer(num_buckets=6, rounds=5).rotations
    assert first.shape == (5, H, D, 3)
    torch.default_generator.manual_seed(3)
    again = reformer(num_buckets=6, rounds=5)
    assert torch.equal(again.rotations, first)
    assert not torch.equal(reformer(num_buckets=6, rounds=5).rotations, first)
    assert "rotations" in again.state_dict()
    assert "rotations" not in dict(again.named_parameters())
    assert sum(p.numel() for p in again.parameters()) == 3 * DIM * DIM


def test_it_can_be_built_on_the_meta_device() -> None:
    with torch.device("meta"):
        attention = Reformer(Place(Role.ENCODER, DIM, DIM), num_heads=H)
    assert attention.rotations.is_meta

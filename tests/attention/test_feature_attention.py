"""Linear attention, Performer and efficient attention as mechanisms."""

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, mask_of, randomised

from seq2seq.attention import Place, Role, build_attention
from seq2seq.attention.base import Encoded, positions_of
from seq2seq.functional.features import log_features
from seq2seq.functional.positions import rotate
from seq2seq.models.layers.positions import Rotary

NAMES = ("linear", "performer", "efficient")
HEADS, WIDTH = 4, DIM // 4


@pytest.mark.parametrize("name", ["linear", "performer"])
@torch.no_grad()
def test_a_decoders_memory_does_not_grow_with_its_text(name: str) -> None:
    attention = randomised(
        build_attention({"name": name, "num_heads": HEADS}, Place(Role.DECODER, DIM, DIM))
    )
    memory, sizes = attention.new_memory(), []
    for start, n in ((0, 1), (1, 7), (8, 992)):
        attention.advance(randn(2, n, DIM), memory, torch.arange(start, start + n))
        sizes.append(memory.nbytes)
    features = WIDTH if name == "linear" else 24
    level = 0 if name == "linear" else 1
    assert sizes == [2 * HEADS * (features * (WIDTH + 1) + level) * 8] * 3


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_source_is_remembered_as_sums_and_kept_rows_keep_their_weights(
    name: str,
) -> None:
    attention = randomised(
        build_attention({"name": name, "num_heads": HEADS}, Place(Role.CROSS, DIM, 20))
    )
    short, long = (attention.memory_of(Encoded(randn(3, S, 20))) for S in (2, 50))
    assert short.nbytes == long.nbytes
    source, mask, x = randn(3, 7, 20), mask_of([7, 5, 2], 7), randn(3, 4, DIM)
    memory = attention.memory_of(Encoded(source, mask))
    whole = attention.attend(x, memory, positions_of(x), need_weights=True).weights
    rows = torch.tensor([2, 0])
    memory.keep(torch.tensor([0, 2]))
    memory.fork(torch.tensor([1, 0]))
    assert memory.rows == 2
    left = attention.attend(x[rows], memory, positions_of(x), need_weights=True).weights
    assert_equal(left, whole[rows])


@pytest.mark.parametrize(
    "name, tolerance", [("linear", 1e-5), ("performer", 1e-9), ("efficient", 1e-9)]
)
def test_weights_give_the_answer_and_nearly_sum_to_one(name: str, tolerance: float) -> None:
    attention = randomised(
        build_attention({"name": name, "num_heads": HEADS}, Place(Role.ENCODER, DIM, DIM))
    )
    x, mask = randn(3, 7, DIM), mask_of([7, 5, 2], 7)
    out, weights = attention(x, mask=mask, need_weights=True)
    values = attention.v(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    assert_equal(attention.out((weights @ values).transpose(1, 2).flatten(2)), out)
    assert_equal(weights.sum(-1), torch.ones_like(weights.sum(-1)), tolerance)


def test_performer_rotates_queries_and_keys_before_computing_features() -> None:
    place = Place(Role.ENCODER, DIM, DIM, Rotary(False, DIM))
    performer = randomised(build_attention({"name": "performer", "num_heads": HEADS}, place))
    x, positions = randn(1, 7, DIM), torch.arange(7)
    q, k = (
        rotate(linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2), positions)
        for linear in (performer.q, performer.k)
    )
    phi_q, phi_k = (log_features(each, performer.w).exp() / 24**0.5 for each in (q, k))
    products = phi_q @ phi_k.transpose(-2, -1)
    expected = products / products.sum(-1, keepdim=True)
    assert_equal(performer(x, need_weights=True).weights, expected)


def test_the_random_features_of_a_performer_are_saved_and_differ_between_models() -> None:
    place = Place(Role.ENCODER, DIM, DIM)
    first, second = (
        build_attention({"name": "performer", "num_heads": HEADS}, place) for _ in "ab"
    )
    assert "w" in first.state_dict() and first.w.shape == (24, WIDTH)
    assert not torch.equal(first.w, second.w)
    assert "w" not in dict(first.named_parameters())
    few = build_attention({"name": "performer", "num_heads": HEADS, "num_features": 3}, place)
    assert few.w.shape == (3, WIDTH)

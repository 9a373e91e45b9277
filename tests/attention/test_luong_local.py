"""Local attention as a layer: the places of its windows, in every row and for beams."""

from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, gradients, mask_of, randomised, small_model

from seq2seq.attention import Place, Role
from seq2seq.attention.base import Encoded
from seq2seq.attention.luong_local import LocalMonotonic, LocalPredictive
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import SCORES
from seq2seq.functional.luong_local import predict_centres

CROSS = Place(Role.CROSS, DIM, DIM)
H = 4


def local(kind: Any, **options: Any) -> Any:
    return randomised(kind(CROSS, num_heads=H, **options))


def ones(weights: torch.Tensor, row: int, query: int) -> list[int]:
    """The keys that a query of a row reads in any head."""
    return weights[row, :, query].any(0).nonzero().flatten().tolist()


def test_a_window_moves_along_the_source_with_the_target() -> None:
    layer, x, source = local(LocalMonotonic, radius=2), randn(1, 9, DIM), randn(1, 6, DIM)
    weights = layer(x, source, need_weights=True).weights
    seen = [ones(weights, 0, t) for t in range(9)]
    assert seen[:3] == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert seen[3:] == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5], [4, 5], [5], []]
    sums = weights.sum(-1)
    assert_equal(sums[..., :8], torch.ones(1, H, 8).double())
    assert not sums[..., 8].any()
    assert layer.sums_to_one  # which holds for queries that see a key


def test_a_word_far_after_the_source_reads_nothing() -> None:
    layer, x, source = local(LocalMonotonic, radius=1), randn(1, 1, DIM), randn(1, 3, DIM)
    memory = layer.memory_of(Encoded(source))
    assert layer.attend(x, memory, torch.tensor([3])).out.any()
    assert not layer.attend(x, memory, torch.tensor([4])).out.any()


def test_rows_may_be_at_different_positions() -> None:
    layer, x, source = local(LocalMonotonic, radius=1), randn(2, 2, DIM), randn(2, 7, DIM)
    memory, positions = layer.memory_of(Encoded(source)), torch.tensor([[0, 4], [6, 2]])
    out, weights = layer.attend(x, memory, positions, need_weights=True)
    assert [[ones(weights, row, t) for t in range(2)] for row in range(2)] == [
        [[0, 1], [3, 4, 5]],
        [[5, 6], [1, 2, 3]],
    ]
    for row in range(2):
        alone = layer.memory_of(Encoded(source[row : row + 1]))
        answer = layer.attend(x[row : row + 1], alone, positions[row]).out
        assert_equal(out[row : row + 1], answer)


@pytest.mark.parametrize("kind", [LocalMonotonic, LocalPredictive])
def test_beams_at_different_positions_are_separate_queries(kind: Any) -> None:
    layer, K = local(kind, radius=1), 3
    source, mask, x = randn(2, 7, DIM), mask_of([7, 4], 7), randn(2 * K, 2, DIM)
    positions = torch.tensor([[0, 1], [3, 4], [2, 3], [1, 2], [2, 3], [5, 6]])
    beams = layer.attend_beams(
        x, layer.memory_of(Encoded(source, mask)), positions, need_weights=True
    )
    tiled = layer.memory_of(Encoded(source.repeat_interleave(K, 0), mask.repeat_interleave(K, 0)))
    assert_equal(beams, layer.attend(x, tiled, positions, need_weights=True))


def test_fresh_heads_look_at_the_middle_of_each_row_and_learn_where_to_look() -> None:
    layer = LocalPredictive(CROSS, num_heads=H, radius=1).double()
    lengths = [7, 4, 1]
    source, mask, x = randn(3, 7, DIM), mask_of(lengths, 7), randn(3, 2, DIM)
    out, weights = layer(x, source, mask, need_weights=True)
    assert [ones(weights, row, 0) for row in range(3)] == [[3, 4], [1, 2, 3], [0]]
    (slope,) = gradients(out.square().sum(), layer.centre.vp)
    assert slope.any(-1).all()


def test_a_predicted_centre_is_read_from_the_query_of_its_head() -> None:
    layer, source, mask = local(LocalPredictive, radius=2), randn(2, 9, DIM), mask_of([9, 5], 9)
    x = randn(2, 6, DIM)
    weights = layer(x, source, mask, need_weights=True).weights
    q = layer.q(x).unflatten(-1, (H, -1)).transpose(1, 2)
    p = predict_centres(q, layer.centre.wp, layer.centre.vp, torch.tensor([9, 5]))
    near = (torch.arange(9) - p[..., None]).abs() <= 2
    assert torch.equal(weights > 0, near & mask[:, None, None])
    assert len({tuple(row) for row in p.flatten(2).tolist()[0]}) == H
    assert (weights.sum(-1) < 1).all()


@pytest.mark.parametrize("score", SCORES)
def test_a_window_wider_than_the_source_is_plain_attention(score: str) -> None:
    layer = local(LocalMonotonic, radius=20, score=score, bias=True)
    whole = MultiHead(CROSS, num_heads=H, num_kv_heads=H, score=score, bias=True).double().eval()
    whole.load_state_dict(layer.state_dict())
    x, source, mask = randn(2, 5, DIM), randn(2, 7, DIM), mask_of([7, 3], 7)
    actual, expected = (a(x, source, mask, need_weights=True) for a in (layer, whole))
    assert_equal(actual, expected)


@pytest.mark.parametrize("score", SCORES)
def test_a_predicted_centre_depends_on_the_query_whatever_the_score(score: str) -> None:
    layer = local(LocalPredictive, score=score)
    x, source = randn(1, 3, DIM).requires_grad_(), randn(1, 7, DIM)
    assert layer.reads_queries
    (slope,) = gradients(layer(x, source).out.square().sum(), x)
    assert slope.abs().max() > 1e-9


def test_in_a_recurrent_model_the_values_are_the_states() -> None:
    names = {n for n, _ in small_model("rnn_luong", "attn=local_p").cross.named_parameters()}
    assert names == {"centre.wp", "centre.vp", "score.weight"}

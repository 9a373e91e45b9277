"""Softmax attention: values worked out by hand, and rows that may attend to nothing."""

import pytest
import torch
from helpers.builders import assert_equal, gradients

from seq2seq.functional import attend, explicit_attention, masked_softmax

# Scores that are logarithms of integers, so that weights are fractions:
#     query 1: 1, 2, 1 -> 1/4, 1/2, 1/4          query 2: 3, 1, (9) -> 3/4, 1/4, masked
SCORES = torch.tensor([[1.0, 2.0, 1.0], [3.0, 1.0, 9.0]], dtype=torch.float64).log()[None, None]
MASK = torch.tensor([[True, True, True], [True, True, False]])
VALUES = torch.tensor([[4.0, 0.0], [0.0, 4.0], [8.0, 8.0]], dtype=torch.float64)[None, None]


def test_two_queries_and_three_keys_give_the_fractions_of_pencil_and_paper() -> None:
    out, weights = explicit_attention(SCORES, VALUES, mask=MASK)
    expected = torch.tensor([[1 / 4, 1 / 2, 1 / 4], [3 / 4, 1 / 4, 0]], dtype=torch.float64)
    assert_equal(weights[0, 0], expected)
    # 4/4 + 0/2 + 8/4 = 3 and 0/4 + 4/2 + 8/4 = 4; then 3/4 * 4 = 3 and 1/4 * 4 = 1
    assert_equal(out[0, 0], torch.tensor([[3.0, 4.0], [3.0, 1.0]], dtype=torch.float64))


def test_the_gradient_of_the_softmax_is_that_of_pencil_and_paper() -> None:
    scores = SCORES.clone().requires_grad_()
    weights = masked_softmax(scores, MASK)
    (slope,) = gradients(weights[0, 0, :, 0].sum(), scores)
    # d a_0 / d e_j = a_0 ([j = 0] - a_j)
    expected = [[3 / 16, -2 / 16, -1 / 16], [3 / 16, -3 / 16, 0]]
    assert_equal(slope[0, 0], torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_gradient_zero(
    dtype: torch.dtype,
) -> None:
    scores = torch.randn(2, 4, 3, 5).to(dtype).requires_grad_()
    v = torch.randn(2, 2, 5, 6).to(dtype).requires_grad_()
    mask = torch.ones(2, 1, 3, 5, dtype=torch.bool)
    mask[1, :, 2] = False
    out, weights = explicit_attention(scores, v, mask=mask)
    assert not weights[1, :, 2].any() and not out[1, :, 2].any()
    of_scores, of_v = gradients(out.square().sum(), scores, v)
    assert not of_scores[1, :, 2].any()
    assert of_scores.isfinite().all() and of_v.isfinite().all()


def test_masked_scores_may_hold_anything_and_get_no_weight_and_no_gradient() -> None:
    scores = torch.randn(1, 1, 2, 3, dtype=torch.float64)
    mask = torch.tensor([True, False, True])
    for garbage in (1e300, -torch.inf, torch.inf, torch.nan):
        dirty = scores.clone()
        dirty[..., 1] = garbage
        dirty.requires_grad_()
        weights = masked_softmax(dirty, mask)
        assert_equal(weights[..., [0, 2]], scores[..., [0, 2]].softmax(-1))
        assert not weights[..., 1].any()
        (slope,) = gradients(weights[..., 0].sum(), dirty)
        assert not slope[..., 1].any() and slope.isfinite().all()


def test_the_softmax_of_low_precision_scores_is_summed_in_float32() -> None:
    # A sum of 4096 equal terms in bfloat16 stops growing at 256 of them.
    scores = torch.zeros(1, 1, 1, 4096, dtype=torch.bfloat16)
    weights = masked_softmax(scores, torch.ones(4096, dtype=torch.bool))
    assert weights.dtype is torch.bfloat16
    assert_equal(weights.float(), torch.full_like(scores.float(), 1 / 4096))


def test_scores_of_any_size_do_not_overflow() -> None:
    scores = torch.tensor([[3e38, 3e38, -3e38]])
    assert_equal(masked_softmax(scores), torch.tensor([[0.5, 0.5, 0.0]]))


def test_query_heads_read_the_values_of_their_group() -> None:
    weights = torch.randn(2, 6, 3, 5, dtype=torch.float64)
    v = torch.randn(2, 2, 5, 4, dtype=torch.float64)
    out = attend(weights, v)
    for head in range(6):
        assert_equal(out[:, head], weights[:, head] @ v[:, head // 3])


def test_returned_weights_are_those_before_dropout() -> None:
    scores, v = torch.randn(1, 2, 3, 50), torch.randn(1, 2, 50, 4)
    out, weights = explicit_attention(scores, v, dropout=0.5)
    assert_equal(weights, scores.softmax(-1))
    assert not torch.allclose(out, weights @ v)


def test_shapes_that_disagree_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="v has shape"):
        explicit_attention(torch.zeros(1, 2, 3, 5), torch.zeros(1, 2, 4, 6))
    with pytest.raises(ValueError, match="3 key heads do not divide 4 query heads"):
        explicit_attention(torch.zeros(1, 4, 3, 5), torch.zeros(1, 3, 5, 6))

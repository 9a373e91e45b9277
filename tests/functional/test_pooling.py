"""Weights without a softmax, compared with values worked out by hand."""

import pytest
import torch
from helpers.builders import assert_equal, gradients
from torch import Tensor

from seq2seq.functional import attend
from seq2seq.functional.pooling import nearest, normalise, uniform
from seq2seq.functional.scores import gaussian

MASK = torch.tensor([True, True, False, True])


def line(*places: float) -> Tensor:
    """Points on a line as queries or keys, (1, 1, n, 1)."""
    return torch.tensor(places, dtype=torch.float64).view(1, 1, -1, 1)


def test_dividing_a_gaussian_kernel_by_its_sum_is_the_softmax_of_its_logarithm() -> None:
    q, k = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (5, 6))
    scores = gaussian(q, k, torch.rand(3, dtype=torch.float64) + 0.5)
    assert_equal(normalise(scores.exp()), scores.softmax(-1))


def test_similarities_are_divided_by_their_sum_over_what_is_visible() -> None:
    similarities = torch.tensor([[1.0, 2.0, 9.0, 1.0], [0.0, 0.0, 9.0, 0.0]])[None, None]
    expected = [[0.25, 0.5, 0, 0.25], [0, 0, 0, 0]]
    assert normalise(similarities, MASK)[0, 0].tolist() == expected


def test_uniform_weights_are_the_mean_of_what_is_visible() -> None:
    q, k, v = torch.randn(2, 4, 3, 5), torch.randn(2, 2, 4, 7), torch.randn(2, 2, 4, 6)
    mean = v[:, :, MASK].mean(2).repeat_interleave(2, dim=1)
    assert_equal(attend(uniform(q, k, MASK), v), mean[:, :, None].expand(-1, -1, 3, -1))
    assert not uniform(q, k, torch.zeros(4, dtype=torch.bool)).any()


def test_the_nearest_keys_share_the_weight_and_the_earlier_of_equals_is_taken() -> None:
    q, k = line(0.0, 2.0, 10.0), line(1.0, -1.0, 0.5, 3.0)
    # distances 1 1 .5 3 | 1 3 1.5 1 | 9 11 9.5 7
    one = [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    two = [[0.5, 0, 0.5, 0], [0.5, 0, 0, 0.5], [0.5, 0, 0, 0.5]]
    assert nearest(q, k, 1)[0, 0].tolist() == one
    assert nearest(q, k, 2)[0, 0].tolist() == two
    assert nearest(q, k, 1, MASK)[0, 0].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]


def test_a_query_that_sees_fewer_neighbours_takes_all() -> None:
    q, k = line(0.0), line(1.0, -1.0, 0.5, 3.0)
    third = [1 / 3, 1 / 3, 0.0, 1 / 3]
    assert_equal(nearest(q, k, 9, MASK)[0, 0, 0].tolist(), third)
    assert_equal(nearest(q, k, 4, MASK)[0, 0, 0].tolist(), third)
    assert not nearest(q, k, 2, torch.zeros(4, dtype=torch.bool)).any()


def test_the_choice_of_neighbours_has_no_gradient_but_their_values_have() -> None:
    q, k, v = (line(*x).requires_grad_() for x in ((0.0,), (1.0, 2.0), (5.0, 7.0)))
    out = attend(nearest(q, k, 1), v)
    of_q, of_k, of_v = gradients(out.sum(), q, k, v)
    assert not of_q.any() and not of_k.any()
    assert of_v.flatten().tolist() == [1.0, 0.0]


def test_no_neighbours_are_refused() -> None:
    with pytest.raises(ValueError, match="count=0 should be at least 1"):
        nearest(line(0.0), line(0.0), 0)

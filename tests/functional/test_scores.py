"""Score functions against loops over single numbers."""

import math

import pytest
import torch
from helpers import assert_equal
from torch import Tensor

from seq2seq.functional import scores


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def table(B: int, H: int, T: int, S: int, score: object) -> Tensor:
    """(B, H, T, S) filled one number at a time by score(b, h, t, s)."""
    assert callable(score)
    rows = [
        [[[score(b, h, t, s) for s in range(S)] for t in range(T)] for h in range(H)]
        for b in range(B)
    ]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
def test_dot_is_a_sum_of_products_of_single_numbers(groups: int) -> None:
    B, H, T, S, D = 2, 4, 3, 5, 6
    q, k = numbers(B, H, T, D), numbers(B, groups, S, D)

    def product(b: int, h: int, t: int, s: int) -> float:
        key = k[b, h // (H // groups), s]
        return 0.5 * sum(float(q[b, h, t, d]) * float(key[d]) for d in range(D))

    assert_equal(scores.dot(q, k, 0.5), table(B, H, T, S, product))


def test_additive_is_a_small_network_on_single_numbers() -> None:
    B, H, T, S, A = 2, 3, 2, 4, 5
    wq, wk, u = numbers(B, H, T, A), numbers(B, H, S, A), numbers(H, A)

    def network(b: int, h: int, t: int, s: int) -> float:
        return sum(
            float(u[h, a]) * math.tanh(float(wq[b, h, t, a]) + float(wk[b, h, s, a]))
            for a in range(A)
        )

    assert_equal(scores.additive(wq, wk, u), table(B, H, T, S, network))


@pytest.mark.parametrize("formula", ["dot", "additive"])
def test_gradients_of_a_score_are_those_of_finite_differences(formula: str) -> None:
    first = numbers(1, 2, 3, 4).requires_grad_()
    second = numbers(1, 1 if formula == "dot" else 2, 2, 4).requires_grad_()
    if formula == "dot":
        assert torch.autograd.gradcheck(lambda q, k: scores.dot(q, k, 0.3), (first, second))
    else:
        u = numbers(2, 4).requires_grad_()
        assert torch.autograd.gradcheck(scores.additive, (first, second, u))


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_each_head_projects_the_keys_of_its_group_with_its_own_matrix(groups: int) -> None:
    x, weight, bias = numbers(2, groups, 3, 5), numbers(4, 7, 5), numbers(4, 7)
    projected = scores.project_per_head(x, weight, bias)
    for h in range(4):
        expected = x[:, h // (4 // groups)] @ weight[h].T + bias[h]
        assert_equal(projected[:, h], expected)
    assert_equal(scores.project_per_head(x, weight), projected - bias[:, None])


def test_shapes_that_disagree_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="k has shape"):
        scores.dot(numbers(1, 2, 3, 4), numbers(1, 2, 3, 5))
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        scores.dot(numbers(1, 3, 3, 4), numbers(1, 2, 3, 4))
    with pytest.raises(ValueError, match="u has shape"):
        scores.additive(numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), numbers(2, 5))
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        scores.project_per_head(numbers(1, 2, 3, 4), numbers(3, 5, 4))

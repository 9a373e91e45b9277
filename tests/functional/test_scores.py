"""Score functions, compared with loops over single elements."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers.builders import assert_equal
from helpers.gradients import assert_same, held_for_the_gradient
from numpy import ndarray
from torch import Tensor

from seq2seq.functional import explicit_attention, scores


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def table(B: int, H: int, T: int, S: int, score: object) -> Tensor:
    """(B, H, T, S) filled one element at a time by score(b, h, t, s)."""
    assert callable(score)
    rows = [
        [[[score(b, h, t, s) for s in range(S)] for t in range(T)] for h in range(H)]
        for b in range(B)
    ]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
def test_dot_is_a_sum_of_products_of_elements(groups: int) -> None:
    B, H, T, S, D = 2, 4, 3, 5, 6
    q, k = randn(B, H, T, D), randn(B, groups, S, D)

    def product(b: int, h: int, t: int, s: int) -> float:
        key = k[b, h // (H // groups), s]
        return 0.5 * sum(float(q[b, h, t, d]) * float(key[d]) for d in range(D))

    assert_equal(scores.dot(q, k, 0.5), table(B, H, T, S, product))


def test_additive_is_a_small_network_on_elements() -> None:
    B, H, T, S, A = 2, 3, 2, 4, 5
    wq, wk, u = randn(B, H, T, A), randn(B, H, S, A), randn(H, A)

    def network(b: int, h: int, t: int, s: int) -> float:
        return sum(
            float(u[h, a]) * math.tanh(float(wq[b, h, t, a]) + float(wk[b, h, s, a]))
            for a in range(A)
        )

    assert_equal(scores.additive(wq, wk, u), table(B, H, T, S, network))


FORMULAS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "dot": (lambda q, k: scores.dot(q, k, 0.3), [(1, 1, 2, 4)]),
    "additive": (scores.additive, [(1, 2, 2, 4), (2, 4)]),
    "gaussian": (lambda q, k, w: scores.gaussian(q, k, w.exp()), [(1, 1, 2, 4), (2,)]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_of_a_score_are_those_of_finite_differences(name: str) -> None:
    formula, shapes = FORMULAS[name]
    given = [randn(*shape).requires_grad_() for shape in [(1, 2, 3, 4), *shapes]]
    assert torch.autograd.gradcheck(formula, given)


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_each_head_projects_the_keys_of_its_group_with_its_matrix(groups: int) -> None:
    x, weight, bias = randn(2, groups, 3, 5), randn(4, 7, 5), randn(4, 7)
    projected = scores.project_per_head(x, weight, bias)
    for h in range(4):
        expected = x[:, h // (4 // groups)] @ weight[h].T + bias[h]
        assert_equal(projected[:, h], expected)
    assert_equal(scores.project_per_head(x, weight), projected - bias[:, None])


def test_shapes_that_disagree_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="k has shape"):
        scores.dot(randn(1, 2, 3, 4), randn(1, 2, 3, 5))
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        scores.dot(randn(1, 3, 3, 4), randn(1, 2, 3, 4))
    with pytest.raises(ValueError, match="u has shape"):
        scores.additive(randn(1, 2, 3, 4), randn(1, 2, 5, 4), randn(2, 5))
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        scores.project_per_head(randn(1, 2, 3, 4), randn(3, 5, 4))
    with pytest.raises(ValueError, match="k has shape"):
        scores.gaussian(randn(1, 2, 3, 4), randn(1, 2, 3, 5), randn(2))
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        scores.gaussian(randn(1, 3, 3, 4), randn(1, 2, 3, 4), randn(3))


def heads_of(k: Tensor, H: int) -> ndarray:
    """The key head that each query head reads: (B, G, S, C) -> (B, H, S, C)."""
    return np.stack([k.detach().numpy()[:, h // (H // k.shape[1])] for h in range(H)], axis=1)


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
def test_gaussian_is_half_the_squared_distance_times_the_width(groups: int) -> None:
    q, k, w = randn(2, 4, 3, 5), randn(2, groups, 6, 5), randn(4).exp()
    apart = q.numpy()[:, :, :, None] - heads_of(k, 4)[:, :, None]
    expected = -w.numpy()[:, None, None] / 2 * (apart**2).sum(-1)
    assert_equal(scores.gaussian(q, k, w), torch.from_numpy(expected))


def test_the_bias_of_the_keys_can_be_rounded() -> None:
    # |k|^2 is near 256, where bfloat16 counts in twos; the differences of keys are what matters.
    k, w = 16 + 0.01 * randn(1, 1, 30, 1), torch.ones(1, dtype=torch.float64)
    bias = scores.gaussian_key_bias(k, w)
    error = (bias.bfloat16().double().softmax(-1) - bias.softmax(-1)).abs().max()
    assert error < 0.01 * bias.softmax(-1).max()
    assert scores.gaussian_key_bias(k[:, :, :0], w).shape == (1, 1, 1, 0)


def test_a_small_distance_between_long_vectors_is_not_lost() -> None:
    q = torch.full((1, 1, 1, 64), 1000.0)  # |q|^2 = 6.4e7, where float32 counts in fours
    k = q + 0.125  # exact in float32; 64 / 64 = 1 is the squared distance
    assert scores.gaussian(q, k, torch.ones(1)).item() == -0.5


def test_the_gaussian_of_bfloat16_states_keeps_its_digits() -> None:
    # All distances are near 128, where bfloat16 counts in ones.
    q, k = randn(2, 1, 5, 256).bfloat16(), randn(2, 1, 30, 256).bfloat16()
    actual = scores.gaussian(q, k, torch.ones(1, dtype=torch.bfloat16))
    expected = scores.gaussian(q.double(), k.double(), torch.ones(1, dtype=torch.float64))
    assert_equal(actual.double(), expected, 1e-4)
    out, _ = explicit_attention(actual, k)
    assert out.dtype is torch.bfloat16
    error = out.double() - expected.softmax(-1) @ k.double()
    assert error.abs().max() < 2e-2


@pytest.mark.parametrize("name", ["gaussian", "additive"])
@pytest.mark.parametrize("max_elements", [1, 2 * 4 * 6 * 5 * 2, 2 * 4 * 6 * 5 * 3])
def test_a_score_in_chunks_of_queries_equals_the_whole_score(name: str, max_elements: int) -> None:
    q, k = randn(2, 4, 7, 5), randn(2, 4, 6, 5)
    parameter = randn(4).exp() if name == "gaussian" else randn(4, 5)
    leaves = [x.requires_grad_() for x in (q, k, parameter)]
    formula = getattr(scores, name)
    whole, chunked = formula(*leaves), formula(*leaves, max_elements=max_elements)
    assert_same(chunked, whole, *leaves)
    with torch.no_grad():
        assert_equal(formula(*leaves, max_elements=max_elements), whole)


def test_chunks_are_as_large_as_the_memory_allows() -> None:
    for max_elements, expected in ((1, [1] * 7), (59, [1] * 7), (60, [2, 2, 2, 1]), (210, [7])):
        seen = []

        def score(part: Tensor, seen: list[int] = seen) -> Tensor:
            seen.append(part.shape[2])
            return part

        with torch.no_grad():
            scores.score_in_chunks(score, randn(2, 3, 7, 1), each=5, max_elements=max_elements)
        assert seen == expected


def test_chunks_store_no_hidden_layer_for_their_gradient() -> None:
    wq, wk, u = (x.requires_grad_() for x in (randn(1, 2, 8, 5), randn(1, 2, 9, 5), randn(2, 5)))
    whole, *chunked = (
        max(held_for_the_gradient(lambda n=n: scores.additive(wq, wk, u, max_elements=n)))
        for n in (2**24, 1)
    )
    assert whole == 2 * 8 * 9 * 5
    assert chunked[0] < whole / 4

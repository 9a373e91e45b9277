"""Luong's local attention, compared with values on paper and loops over single elements."""

import math

import pytest
import torch
from helpers.builders import assert_equal, mask_of
from helpers.gradients import assert_same
from torch import Tensor

from seq2seq.functional.luong_local import local_attention, predict_centres


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def weights_of(centres: list[float], keys: int, radius: int, gaussian: bool) -> Tensor:
    """The weights where all keys fit equally well: (T, S)."""
    flat = torch.zeros(1, 1, len(centres), keys, dtype=torch.float64)
    p = torch.tensor([[centres]], dtype=torch.float64)
    v = torch.zeros(1, 1, keys, 1, dtype=torch.float64)
    return local_attention(flat, v, p, radius, gaussian=gaussian)[1][0, 0]


def test_windows_on_paper() -> None:
    third, half = 1 / 3, 1 / 2
    expected = [
        [half, half, 0, 0, 0],  # the window is cut at the sentence's begin
        [third, third, third, 0, 0],
        [0, third, third, third, 0],
        [0, 0, third, third, third],
        [0, 0, 0, half, half],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0],  # beyond the end there is nothing to read
    ]
    actual = weights_of([0, 1, 2, 3, 4, 5, 6], keys=5, radius=1, gaussian=False)
    assert_equal(actual, torch.tensor(expected, dtype=torch.float64))


def test_a_gaussian_on_paper() -> None:
    # About 2: three keys, a third each, times exp(-2), 1 and exp(-2). About 1.5 two are within 1,
    # and their half is taken times exp(-(1/2)^2 / (2 (1/2)^2)). About 5 the last is just in reach.
    far, near = math.exp(-2) / 3, math.exp(-1 / 2) / 2
    expected = [
        [0, far, 1 / 3, far, 0],
        [0, near, near, 0, 0],
        [0, 0, 0, 0, math.exp(-2)],
    ]
    actual = weights_of([2, 1.5, 5], keys=5, radius=1, gaussian=True)
    assert_equal(actual, torch.tensor(expected, dtype=torch.float64))


def by_hand(
    scores: Tensor, v: Tensor, centres: Tensor, radius: int, gaussian: bool, lengths: list[int]
) -> tuple[Tensor, Tensor]:
    """Both formulas, one key of one query at a time."""
    B, H, T, S = scores.shape
    shared = H // v.shape[1]
    outs, rows = [], []
    for b in range(B):
        for h in range(H):
            for t in range(T):
                p = centres.expand(B, H, T)[b, h, t]
                window = [s for s in range(lengths[b]) if abs(s - p) <= radius]
                total = sum(scores[b, h, t, s].exp() for s in window)
                row = [torch.zeros((), dtype=torch.float64)] * S
                for s in window:
                    row[s] = scores[b, h, t, s].exp() / total
                    if gaussian:
                        row[s] = row[s] * (-((s - p) ** 2) / (2 * (radius / 2) ** 2)).exp()
                rows.append(torch.stack(row))
                outs.append(sum(w * v[b, h // shared, s] for s, w in enumerate(row)))
    return torch.stack(outs).view(B, H, T, -1), torch.stack(rows).view(B, H, T, S)


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("gaussian", [False, True], ids=["local-m", "local-p"])
@pytest.mark.parametrize("radius", [1, 2, 5])
def test_local_attention_and_its_gradients_are_those_of_loops(
    radius: int, gaussian: bool, groups: int
) -> None:
    B, H, T, S, lengths = 3, 4, 3, 7, [7, 4, 0]
    scores, v = randn(B, H, T, S), randn(B, groups, S, 2)
    centres = (torch.rand(B, H, T).double() * S).requires_grad_()
    leaves = (scores, v, centres) if gaussian else (scores, v)
    mask = mask_of(lengths, S)[:, None, None]
    actual = local_attention(scores, v, centres, radius, gaussian=gaussian, mask=mask)
    expected = by_hand(scores, v, centres, radius, gaussian, lengths)
    assert_same(actual, expected, *leaves)
    assert not actual[0][2].any() and not actual[1][2].any()


def test_centres_are_a_small_network_on_elements() -> None:
    B, H, T, D, A = 2, 3, 2, 4, 5
    q, wp, vp = randn(B, H, T, D), randn(H, A, D), randn(H, A)
    lengths = torch.tensor([7, 3])
    actual = predict_centres(q, wp, vp, lengths)
    x, w, u = q.tolist(), wp.tolist(), vp.tolist()

    def centre(b: int, h: int, t: int) -> float:
        hidden = [math.tanh(sum(w[h][a][d] * x[b][h][t][d] for d in range(D))) for a in range(A)]
        score = sum(u[h][a] * hidden[a] for a in range(A))
        return (7, 3)[b] / (1 + math.exp(-score))

    expected = [[[centre(b, h, t) for t in range(T)] for h in range(H)] for b in range(B)]
    assert_equal(actual, torch.tensor(expected, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda *x: predict_centres(*x, lengths), (q, wp, vp))


def test_the_centre_of_a_long_row_is_not_rounded_to_bfloat16() -> None:
    q, wp, vp = torch.randn(1, 2, 9, 8), torch.randn(2, 8, 8), torch.randn(2, 8)
    lengths, half = torch.tensor([5000]), [x.bfloat16() for x in (q, wp, vp)]
    with torch.autocast("cpu", torch.bfloat16):
        actual = predict_centres(*half, lengths)
    assert actual.dtype is torch.float32
    assert_equal(actual, predict_centres(*(x.float() for x in half), lengths), 0)


def test_a_window_always_has_a_real_key_around_a_predicted_centre() -> None:
    # The query may predict either end: sigmoid is exactly 0 or 1 in float32.
    q, one = torch.tensor([-1e9, 1e9]).view(1, 1, 2, 1), torch.full((1, 1, 1), 1e9)
    centres = predict_centres(q, one, one[0], torch.tensor([3]))
    assert centres.flatten().tolist() == [0, 3]
    scores, v = torch.zeros(1, 1, 2, 4), torch.ones(1, 1, 4, 1)
    mask = mask_of([3], 4)[:, None, None]
    _, weights = local_attention(scores, v, centres, 1, gaussian=True, mask=mask)
    assert (weights.sum(-1) > 0.05).all()


def test_heads_that_do_not_divide_are_refused() -> None:
    for gaussian in (False, True):
        with pytest.raises(ValueError, match="3 key heads do not divide 4 query heads"):
            local_attention(
                randn(1, 4, 2, 5), randn(1, 3, 5, 2), torch.zeros(2), 1, gaussian=gaussian
            )

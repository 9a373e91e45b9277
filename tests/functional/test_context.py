"""Means over rows, prefixes and groups, compared with loops over tokens."""

import pytest
import torch
from helpers.builders import assert_equal, mask_of
from helpers.gradients import assert_same
from torch import Tensor

from seq2seq.functional.context import gate, group_means, modulate, prefix_means, row_means


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def mean_of(tokens: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(tokens).sum(0) / len(tokens) if tokens else like * 0


def loop(x: Tensor, groups: Tensor, mask: Tensor, causal: bool) -> Tensor:
    """For each token the mean over the real members of its group, one by one."""
    N, S, _ = x.shape
    means = []
    for n in range(N):
        for j in range(S):
            members = [
                x[n, t]
                for t in range(j + 1 if causal else S)
                if mask[n, t] and groups[n, t] == groups[n, j]
            ]
            means.append(mean_of(members, x[n, j]))
    return torch.stack(means).view_as(x)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1, 7, 33])
def test_means_of_groups_are_those_of_a_loop(size: int, causal: bool) -> None:
    x, mask = randn(4, size, 3), mask_of([size, max(1, size // 2), 1, 0], size)
    # Scattered groups with arbitrary ids.
    for groups in (torch.randint(-2, 3, (4, size)), torch.arange(size).expand(4, size) // 3 + 100):
        actual, expected = group_means(x, groups, mask, causal), loop(x, groups, mask, causal)
        assert_same(actual, expected, x)


@pytest.mark.parametrize("size", [1, 7, 33])
def test_one_group_is_the_row_and_its_causal_mean_is_the_prefix(size: int) -> None:
    x, mask = randn(3, size, 3), mask_of([size, max(1, size // 2), 0], size)
    one = torch.zeros(3, size, dtype=torch.long)
    pairs = [
        (row_means(x, mask).expand_as(x), loop(x, one, mask, False)),
        (prefix_means(x, mask)[0], loop(x, one, mask, True)),
        (row_means(x).expand_as(x), group_means(x, one)),
        (prefix_means(x)[0], group_means(x, one, causal=True)),
    ]
    for actual, expected in pairs:
        assert_same(actual, expected, x)


def test_means_of_prefixes_on_paper() -> None:
    x = torch.tensor([[[2.0], [8.0], [100.0], [5.0]]])
    mask = torch.tensor([[True, True, False, True]])
    means, sums = prefix_means(x, mask)
    assert means.flatten().tolist() == [2, 5, 5, 5]
    assert sums.total.tolist() == [[15]] and sums.tokens.tolist() == [[3]]
    means, sums = prefix_means(torch.tensor([[[25.0]]]), before=sums)
    assert means.item() == 10 and sums.tokens.item() == 4


def test_prefixes_in_pieces_equal_prefixes_at_once() -> None:
    x = randn(2, 33, 3)
    whole, end = prefix_means(x)
    sums, parts = None, []
    for piece in x.split([1, 7, 1, 24], dim=1):
        means, sums = prefix_means(piece, before=sums)
        parts.append(means)
    assert_equal(torch.cat(parts, dim=1), whole)
    assert_equal(sums, end)


def test_sums_in_bfloat16_do_not_stop_growing() -> None:
    # In bfloat16 itself a running sum of ones stops at 256.
    x = torch.ones(1, 4096, 1, dtype=torch.bfloat16)
    means, sums = prefix_means(x)
    assert sums.total.dtype is torch.float32 and sums.total.item() == 4096
    assert (means == 1).all() and row_means(x).item() == 1
    assert (group_means(x, torch.zeros(1, 4096, dtype=torch.long)) == 1).all()


def test_a_small_group_after_large_values_keeps_its_digits() -> None:
    x = torch.full((1, 1000, 1), 1e4)
    x[0, -1] = 1e-3
    groups = torch.arange(1000)[None]
    assert_equal(group_means(x, groups) / x, torch.ones_like(x))


def test_values_at_padding_may_be_infinite() -> None:
    x, mask = torch.tensor([[[1.0], [3.0], [torch.inf]]]), mask_of([2], 3)
    one = torch.zeros(1, 3, dtype=torch.long)
    assert row_means(x, mask).item() == 2
    assert group_means(x, one, mask).flatten().tolist() == [2, 2, 2]
    assert prefix_means(x, mask)[0].flatten().tolist() == [1, 2, 2]


def test_modulated_keys_give_scores_with_a_diagonal_matrix() -> None:
    q, k, c = randn(4, 5), randn(6, 5), randn(5)
    # Q K^T + Q (C K^T) with C = diag(c), as it is printed.
    printed = q @ k.T + q @ (torch.diag(c) @ k.T)
    assert_equal(q @ modulate(k, c).T, printed)


def test_a_gate_mixes_with_one_share_per_head() -> None:
    x, c = randn(2, 3, 4, 5), randn(2, 1, 4, 5)
    a, b = randn(4, 5), randn(4, 5)
    expected = []
    for n in range(2):
        for t in range(3):
            for h in range(4):
                share = 1 / (1 + (-(x[n, t, h] @ a[h]) - c[n, 0, h] @ b[h]).exp())
                expected.append((1 - share) * x[n, t, h] + share * c[n, 0, h])
    actual, wanted = gate(x, c, a, b), torch.stack(expected).view(2, 3, 4, 5)
    assert_same(actual, wanted, x, c, a, b)
    assert_equal(gate(x, c, a * 0, b * 0), (x + c) / 2)


def test_groups_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"groups has shape \(2, 4\); expected \(N, S\) with N=2"):
        group_means(randn(2, 3, 5), torch.zeros(2, 4, dtype=torch.long))

"""Dropout: what it keeps, how often, and by how much it scales it."""

import pytest
import torch

from seq2seq.functional import dropout
from seq2seq.functional.dropout import LEVELS, keep_factors_at


def rounded(p: float) -> float:
    """The probability that is really applied on a CPU."""
    return round(p * LEVELS) / LEVELS


def test_probability_zero_returns_the_input_itself() -> None:
    x = torch.randn(3, 4)
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_kept_elements_are_scaled_by_exactly_one_over_the_kept_share(p: float) -> None:
    x = torch.randn(1001, dtype=torch.float64)
    out = dropout(x, p)
    kept = out != 0
    assert 0 < kept.sum() < len(x)
    torch.testing.assert_close(out[kept], x[kept] / (1 - rounded(p)), atol=0, rtol=1e-15)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_every_element_is_dropped_with_the_same_probability(p: float) -> None:
    draws = 40_000
    kept = dropout(torch.ones(draws, 8), p) > 0
    # Four elements share one draw of the generator: each of the four has to be fair.
    share = kept.double().mean(0)
    deviation = (p * (1 - p) / draws) ** 0.5
    assert (share - (1 - p)).abs().max() < 5 * deviation
    # ... and no place may say anything about another.
    correlation = torch.corrcoef(kept.double().T) - torch.eye(8)
    assert correlation.abs().max() < 5 / draws**0.5


def test_a_seed_fixes_the_mask_and_each_call_draws_a_new_one() -> None:
    x = torch.ones(257)
    torch.manual_seed(5)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5), first)
    assert not torch.equal(first, second)


def test_the_gradient_is_the_mask() -> None:
    x = (torch.rand(7, 5, 3, dtype=torch.float64) + 1).requires_grad_()
    out = dropout(x, 0.4)
    slope = torch.randn_like(out)
    (gradient,) = torch.autograd.grad((out * slope).sum(), x)
    torch.testing.assert_close(gradient, slope * (out / x).detach())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (65, 1), (3, 0, 2)])
def test_any_shape_is_kept(shape: tuple[int, ...]) -> None:
    assert dropout(torch.ones(shape), 0.5).shape == shape


def test_a_view_that_is_not_contiguous_is_dropped_like_any_other() -> None:
    x = torch.rand(65, 7).T
    torch.manual_seed(1)
    out = dropout(x, 0.5)
    torch.manual_seed(1)
    assert torch.equal(out, dropout(x.contiguous(), 0.5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_type_is_kept(dtype: torch.dtype) -> None:
    assert dropout(torch.ones(5, dtype=dtype), 0.1).dtype is dtype


@pytest.mark.parametrize("p", [1e-7, 1 - 1e-7])
def test_probabilities_next_to_zero_and_one_give_finite_results(p: float) -> None:
    assert dropout(torch.ones(9), p).isfinite().all()


def factors_at(seed: int, size: int, p: float) -> torch.Tensor:
    """The factors of a square, in float64."""
    places = torch.arange(size)
    return keep_factors_at(seed, places, places, p, torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_hash_drops_with_its_probability_in_each_row_and_column(p: float) -> None:
    size = 1000
    kept = factors_at(5, size, p) > 0
    for axis in (0, 1):
        deviations = (kept.double().mean(axis) - (1 - p)) / (p * (1 - p) / size) ** 0.5
        assert deviations.abs().max() < 5
        assert abs(deviations.std() - 1) < 0.15  # as of independent draws


def test_a_hash_drops_rows_columns_and_seeds_independently() -> None:
    size, signs = 500, factors_at(5, 500, 0.5) - 1
    for other in (signs.T, factors_at(6, size, 0.5) - 1, factors_at(5 + 2**31, size, 0.5) - 1):
        assert abs((signs * other).sum() / size) < 5
    for one in (signs, signs.T):
        agreement = (one @ one.T).fill_diagonal_(0) / size**0.5
        assert agreement.abs().max() < 6  # of 250,000 pairs
    corners = signs[:-1, :-1] * signs[1:, 1:] * signs[:-1, 1:] * signs[1:, :-1]
    assert abs(corners.sum() / size) < 5


def test_the_hash_of_a_place_does_not_depend_on_the_part() -> None:
    whole = factors_at(2**61, 40, 0.3)
    rows, columns = torch.arange(7, 30), torch.arange(3, 11)
    part = keep_factors_at(2**61, rows, columns, 0.3, whole)
    assert torch.equal(part, whole[7:30, 3:11])
    assert set(whole.unique().tolist()) == {0, 1 / 0.7}

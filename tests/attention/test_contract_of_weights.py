"""The contract of attention, continued: what holds for the weights that an alignment map shows."""

import pytest
import torch
from cases import (
    SIZES,
    Case,
    by_default_kernel,
    every,
    inputs_of,
    shows_weights,
)
from helpers import assert_equal, gradients


@every(shows_weights, by_default_kernel)
def test_weights_sum_to_one_on_real_queries_and_vanish_on_padding(case: Case) -> None:
    for size in SIZES:
        attention, (x, source, mask, real) = case.build(), inputs_of(case, size)
        weights = attention(x, source, mask, need_weights=True).weights
        assert weights is not None
        assert weights.shape[0::2] == x.shape[:2] and weights.shape[3] == size
        assert (weights >= 0).all()
        rows = weights.sum(-1).transpose(1, 2)[real]  # of all heads
        if attention.sums_to_one:
            assert_equal(rows, torch.ones_like(rows))
        if mask is None:
            assert not weights.triu(1).any()
        else:
            assert not weights.movedim(3, 1)[~mask].any()


@every(shows_weights)
def test_asking_for_weights_does_not_change_the_answer(case: Case) -> None:
    for size in SIZES:
        attention, given = case.build(), inputs_of(case, size)
        x, source, mask, real = given
        plain, asked = attention(x, source, mask), attention(x, source, mask, need_weights=True)
        assert plain.weights is None
        assert_equal(asked.out[real], plain.out[real])
        leaves = (*given.leaves, *attention.parameters())
        expected = gradients(plain.out[real].square().sum(), *leaves)
        assert_equal(gradients(asked.out[real].square().sum(), *leaves), expected)


@every(lambda case: not shows_weights(case))
def test_a_mechanism_without_weights_refuses_to_show_any(case: Case) -> None:
    attention, (x, source, mask, _) = case.build(), inputs_of(case, 7)
    with pytest.raises(ValueError, match="has no weights"):
        attention(x, source, mask, need_weights=True)

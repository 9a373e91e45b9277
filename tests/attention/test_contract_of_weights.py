"""The contract of attention, continued: what holds for the weights that an alignment map shows."""

import pytest
import torch
from cases import (
    DIM,
    SIZES,
    Case,
    by_default_kernel,
    every,
    in_decoder,
    inputs_of,
    randn,
    shows_weights,
    shows_weights_of_a_step,
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


@every(shows_weights, in_decoder, by_default_kernel, shows_weights_of_a_step)
@torch.no_grad()
def test_weights_of_a_step_are_the_rows_of_the_whole(case: Case) -> None:
    attention, x = case.build(), randn(2, 7, DIM)
    whole = attention(x, need_weights=True).weights
    memory = attention.new_memory()
    attention.advance(x[:, :4], memory, torch.arange(4))
    step = attention.advance(x[:, 4:6], memory, torch.arange(4, 6), need_weights=True).weights
    assert step is not None and whole is not None
    assert_equal(step, whole[:, :, 4:6, : step.shape[-1]])


@every(shows_weights, in_decoder, lambda case: not shows_weights_of_a_step(case))
def test_a_step_that_keeps_no_keys_refuses_to_show_weights_and_changes_nothing(case: Case) -> None:
    attention, x = case.build(), randn(2, 7, DIM)
    memory = attention.new_memory()
    with pytest.raises(ValueError, match="keeps no keys"):
        attention.advance(x, memory, torch.arange(7), need_weights=True)
    assert_equal(attention.advance(x, memory, torch.arange(7)).out, attention(x).out)


@every(lambda case: not shows_weights(case))
def test_a_mechanism_without_weights_refuses_to_show_any(case: Case) -> None:
    attention, (x, source, mask, _) = case.build(), inputs_of(case, 7)
    with pytest.raises(ValueError, match="has no weights"):
        attention(x, source, mask, need_weights=True)

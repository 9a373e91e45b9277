"""The baseline without attention: one vector for the whole source."""

from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, mask_of, randomised

from seq2seq.attention import Place, Role
from seq2seq.attention.fixed import Fixed, final_state, mean_state

X = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [99.0, 99.0]], [[5.0, 7.0], [99.0, 99.0], [99.0, 99.0]]])
MASK = mask_of([2, 1], 3)


def test_the_mean_is_over_real_tokens() -> None:
    assert mean_state(X, MASK).tolist() == [[2.0, 4.0], [5.0, 7.0]]


def test_the_final_state_is_the_last_of_the_forward_and_the_first_of_the_backward_half() -> None:
    assert final_state(X, MASK).tolist() == [[3.0, 2.0], [5.0, 7.0]]


@pytest.mark.parametrize("project, pooled", [(True, mean_state), (False, final_state)])
def test_pooling_follows_the_model_unless_it_is_chosen(project: bool, pooled: Any) -> None:
    place, source, mask = Place(Role.CROSS, DIM, DIM), randn(2, 7, DIM), mask_of([7, 3], 7)
    fixed = randomised(Fixed(place, project=project))
    expected = fixed.out(pooled(source, mask))[:, None].expand(2, 5, DIM)
    assert_equal(fixed(randn(2, 5, DIM), source, mask).out, expected)
    chosen = randomised(Fixed(place, project=project, pool="mean"))
    expected = chosen.out(mean_state(source, mask))[:, None].expand(2, 5, DIM)
    assert_equal(chosen(randn(2, 5, DIM), source, mask).out, expected)

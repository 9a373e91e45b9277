"""Shape errors say what was given and what was expected."""

import pytest
import torch

from seq2seq.functional.shapes import check, check_head_groups


def test_the_size_of_every_letter_is_returned() -> None:
    sizes = check("B T D, B S D", q=torch.zeros(2, 3, 4), k=torch.zeros(2, 5, 4))
    assert sizes == {"B": 2, "T": 3, "D": 4, "S": 5}


def test_a_wrong_size_names_the_tensor_and_the_letters_that_are_known() -> None:
    with pytest.raises(ValueError) as caught:
        check("B H T D, B G S D", q=torch.zeros(2, 4, 9, 32), k=torch.zeros(2, 3, 7, 16))
    assert str(caught.value) == "k has shape (2, 3, 7, 16); expected (B, G, S, D) with B=2, D=32"


def test_a_wrong_rank_is_refused() -> None:
    with pytest.raises(ValueError) as caught:
        check("B T", x=torch.zeros(2, 3, 4))
    assert str(caught.value) == "x has shape (2, 3, 4); expected (B, T)"


def test_a_letter_twice_in_one_shape_means_one_size() -> None:
    check("D D", w=torch.zeros(3, 3))
    with pytest.raises(ValueError, match="w has shape"):
        check("D D", w=torch.zeros(3, 4))


@pytest.mark.parametrize("heads, groups", [(4, 3), (4, 8), (4, 0)])
def test_key_heads_that_do_not_divide_the_query_heads_are_refused(heads: int, groups: int) -> None:
    check_head_groups(4, 2)
    with pytest.raises(ValueError, match=f"{groups} key heads do not divide {heads} query heads"):
        check_head_groups(heads, groups)

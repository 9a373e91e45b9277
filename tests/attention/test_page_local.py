"""Page-local attention: absolute borders, and a ring of pages."""

from typing import Literal

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, position_scheme, randomised

from seq2seq.attention import Place, Role
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.page_local import PageLocal
from seq2seq.testing.contract_of_memories import advance

ENCODER, DECODER = Place(Role.ENCODER, DIM, DIM), Place(Role.DECODER, DIM, DIM)


def test_tokens_beyond_the_radius_change_no_page() -> None:
    attention = randomised(PageLocal(ENCODER, num_heads=4, page=4, radius=1))
    x = randn(2, 14, DIM)
    longer = torch.cat((x, randn(2, 9, DIM)), dim=1)
    # Pages 0 and 1 read no further than page 2, which ends at 12.
    assert_equal(attention(longer).out[:, :8], attention(x).out[:, :8])
    padded = torch.zeros(2, 23, dtype=torch.bool)
    padded[:, :14] = True
    assert_equal(attention(longer, mask=padded).out[:, :14], attention(x).out)


def test_a_shift_moves_all_borders_unless_it_is_by_whole_pages() -> None:
    attention = randomised(PageLocal(ENCODER, num_heads=4, page=4, radius=0))
    x = randn(1, 12, DIM)

    def shifted(by: int) -> torch.Tensor:
        return attention(torch.cat((randn(1, by, DIM), x), dim=1)).out[:, by:]

    assert_equal(shifted(4), attention(x).out)
    assert not torch.allclose(shifted(1), attention(x).out)


@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
def test_one_page_for_all_is_multi_head_attention(role: Role) -> None:
    x, scheme = randn(2, 9, DIM), position_scheme("t5", role is Role.DECODER)
    place = Place(role, DIM, DIM, scheme)
    full = randomised(MultiHead(place, num_heads=4, num_kv_heads=4))
    for options in ({"page": 9, "radius": 0}, {"page": 2, "radius": 4}):
        paged = PageLocal(place, num_heads=4, **options).double()
        paged.load_state_dict(full.state_dict())
        assert_equal(paged(x, need_weights=True), full(x, need_weights=True))


@pytest.mark.parametrize("form", ["joint", "per_page", "mean"])
@torch.no_grad()
def test_decoding_in_any_pieces_equals_the_whole_sequence(
    form: Literal["joint", "per_page", "mean"],
) -> None:
    place = DECODER._replace(position=position_scheme("alibi", causal=True))
    attention = randomised(PageLocal(place, num_heads=4, page=3, radius=2, form=form))
    x = randn(2, 40, DIM)
    expected = attention(x).out
    for pieces in ([1] * 40, [5] * 8, [2, 1, 30, 3, 4], [9, 9, 9, 9, 4]):
        memory = attention.new_memory()
        assert_equal(advance(attention, x, memory, 0, pieces), expected)
        assert memory.read().k.shape[2] == 9  # three pages of three, of forty tokens


def test_per_page_weights_sum_to_one_for_each_page_that_is_read() -> None:
    attention = randomised(PageLocal(ENCODER, num_heads=4, page=3, radius=1, form="per_page"))
    weights = attention(randn(1, 10, DIM), need_weights=True).weights
    assert weights is not None and not attention.sums_to_one
    pages = torch.tensor([2.0] * 3 + [3.0] * 6 + [2.0], dtype=torch.float64)
    assert_equal(weights.sum(-1), pages.expand(1, 4, 10))

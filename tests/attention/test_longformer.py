"""Longformer: global tokens, their projections, and the memory of a decoder."""

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, mask_of, position_scheme, randomised
from helpers.gradients import assert_same
from torch import Tensor, nn

from seq2seq.attention import Place, Role
from seq2seq.attention.longformer import Longformer
from seq2seq.attention.multihead import MultiHead
from seq2seq.testing.contract_of_memories import advance

ENCODER, DECODER = Place(Role.ENCODER, DIM, DIM), Place(Role.DECODER, DIM, DIM)
HEADS, WIDTH = 4, DIM // 4


def by_loops(attention: Longformer, x: Tensor) -> Tensor:
    """An encoder's answers to one sentence, x (S, E), a query and a head at a time."""
    g, r, answers = attention.num_global, attention.window, []
    for i in range(len(x)):
        is_global = i < g
        q, k, v = attention.q, attention.k, attention.v
        if is_global:
            q, k, v = attention.q_global, attention.k_global, attention.v_global
        seen = [j for j in range(len(x)) if is_global or j < g or abs(i - j) <= r]
        heads = []
        for h in range(HEADS):
            part = slice(h * WIDTH, (h + 1) * WIDTH)
            scores = torch.stack([q(x[i])[part] @ k(x[j])[part] for j in seen]) / WIDTH**0.5
            values = torch.stack([v(x[j])[part] for j in seen])
            heads.append(scores.softmax(0) @ values)
        answers.append(attention.out(torch.cat(heads)))
    return torch.stack(answers)


@pytest.mark.parametrize("num_global", [0, 1, 3, 30])
def test_local_and_global_queries_follow_the_formula(num_global: int) -> None:
    attention = randomised(Longformer(ENCODER, num_heads=HEADS, window=2, num_global=num_global))
    lengths = [20, 7, 2, 1]  # the last are shorter than three global tokens
    x = randn(4, 20, DIM).requires_grad_()
    out = attention(x, mask=mask_of(lengths, 20)).out
    answers = [out[row, :length] for row, length in enumerate(lengths)]
    expected = [by_loops(attention, x[row, :length]) for row, length in enumerate(lengths)]
    assert_same(answers, expected, x, *attention.parameters())


@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
@pytest.mark.parametrize("position", ["none", "rope", "t5"])
def test_a_wide_window_begins_as_multi_head_attention(role: Role, position: str) -> None:
    # Also for global queries, whose projections start as copies of the local ones.
    scheme = None if position == "none" else position_scheme(position, role is Role.DECODER)
    place, x = Place(role, DIM, DIM, scheme), randn(2, 9, DIM)
    local = Longformer(place, num_heads=HEADS, window=8, num_global=2).double()
    full = MultiHead(place, num_heads=HEADS, num_kv_heads=HEADS).double()
    state = {name: x for name, x in local.state_dict().items() if "_global" not in name}
    full.load_state_dict(state)
    assert_equal(local(x, need_weights=True), full(x, need_weights=True))


def test_global_queries_have_separate_projections_in_the_encoder_only() -> None:
    def separate(place: Place, num_global: int) -> set[str]:
        attention = Longformer(place, num_heads=HEADS, num_global=num_global)
        return {name for name, _ in attention.named_children() if name.endswith("_global")}

    assert separate(ENCODER, 1) == {"q_global", "k_global", "v_global"}
    assert separate(ENCODER, 0) == separate(DECODER, 1) == set()


def test_a_global_token_of_the_encoder_sees_all_and_is_seen_by_all() -> None:
    attention = randomised(Longformer(ENCODER, num_heads=HEADS, window=1, num_global=1))
    weights = attention(randn(1, 9, DIM), need_weights=True).weights
    assert weights is not None
    i, j = torch.arange(9)[:, None], torch.arange(9)
    seen = ((i - j).abs() <= 1) | (i == 0) | (j == 0)
    assert torch.equal(weights[0] > 0, seen.expand(HEADS, 9, 9))


@pytest.mark.parametrize("num_global", [0, 1, 5])
@torch.no_grad()
def test_decoding_in_any_pieces_equals_the_whole_sequence(num_global: int) -> None:
    place = DECODER._replace(position=position_scheme("t5", causal=True))
    attention = randomised(Longformer(place, num_heads=HEADS, window=3, num_global=num_global))
    x = randn(2, 80, DIM)
    expected = attention(x).out
    for pieces in ([1] * 80, [4] * 20, [2, 1, 70, 3, 4], [40, 40]):
        memory = attention.new_memory()
        assert_equal(advance(attention, x, memory, 0, pieces), expected)
        # keys and values, in float64, of the window and of the global tokens
        assert memory.nbytes == 2 * 2 * DIM * 8 * (3 + num_global)


def test_projections_of_global_queries_change_no_other_answer() -> None:
    attention = randomised(Longformer(ENCODER, num_heads=HEADS, window=1, num_global=1))
    x = randn(1, 9, DIM)
    before = attention(x).out
    assert isinstance(attention.v_global, nn.Linear)
    with torch.no_grad():
        attention.v_global.weight.add_(1.0)
    after = attention(x).out
    assert torch.equal(after[:, 1:], before[:, 1:]) and not torch.allclose(
        after[:, 0], before[:, 0]
    )

"""Relative positions that depend on the query, compared with the paper's formula."""

import math

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, position_scheme, randomised
from helpers.gradients import assert_same
from torch import Tensor

from seq2seq.attention import Place, Role
from seq2seq.attention.multihead import MultiHead
from seq2seq.models.layers.positions import TransformerXL

HEADS, WIDTH = 4, DIM // 4


def build(role: Role, **options: object) -> tuple[MultiHead, TransformerXL]:
    scheme = position_scheme("transformer_xl", role is Role.DECODER)
    place = Place(role, DIM, DIM, scheme)
    attention = randomised(MultiHead(place, num_heads=HEADS, **options))  # type: ignore[arg-type]
    return attention, scheme


def wave(distance: int) -> Tensor:
    """Sines, then cosines, of a distance."""
    rates = [10_000 ** (-2 * i / DIM) for i in range(DIM // 2)]
    values = [math.sin(distance * r) for r in rates] + [math.cos(distance * r) for r in rates]
    return torch.tensor(values, dtype=torch.float64)


def weights_by_hand(attention: MultiHead, scheme: TransformerXL, x: Tensor) -> Tensor:
    """(H, T, T) of one sentence (T, E): terms (a) and (c) of the paper's equation through `bias` of
    the queries, (b) and (d) through the scheme.
    """
    T, groups = len(x), attention.num_kv_heads
    q = attention.q(x).view(T, HEADS, WIDTH)
    k = attention.k(x).view(T, groups, WIDTH)
    rows = []
    for h in range(HEADS):
        of_head = scheme.distance_map.view(HEADS, WIDTH, DIM)[h]  # Wr
        for i in range(T):
            last = i if attention.place.role is Role.DECODER else T - 1
            scores = torch.stack(
                [
                    q[i, h] @ k[j, h * groups // HEADS]
                    + q[i, h] @ (of_head @ wave(j - i))
                    + scheme.distance_bias[h] @ (of_head @ wave(j - i))
                    for j in range(last + 1)
                ]
            )
            seen = (scores / math.sqrt(WIDTH)).softmax(0)
            rows.append(torch.cat((seen, seen.new_zeros(T - 1 - last))))
    return torch.stack(rows).view(HEADS, T, T)


@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
@pytest.mark.parametrize("groups", [HEADS, 2])
def test_weights_and_gradients_are_those_of_the_paper(role: Role, groups: int) -> None:
    attention, scheme = build(role, num_kv_heads=groups, bias=True)
    x = randn(1, 7, DIM).requires_grad_()
    expected = weights_by_hand(attention, scheme, x[0])
    weights = attention(x, need_weights=True).weights
    assert weights is not None
    learnt = x, scheme.distance_map, scheme.distance_bias, attention.q.weight
    # Sinusoids are float32.
    assert_same(weights[0], expected, *learnt, tolerance=1e-5)


def test_weights_of_distances_depend_on_the_query_and_not_on_its_position() -> None:
    attention, _ = build(Role.ENCODER)
    with torch.no_grad():
        attention.k.weight.zero_()  # nothing but distances
    token = randn(1, 1, DIM)
    alike = attention(token.expand(1, 9, DIM), need_weights=True).weights
    assert alike is not None
    ratio = alike.log().diff(dim=-1)  # of neighbouring keys
    for distance in range(-3, 3):
        line = ratio.diagonal(distance, dim1=-2, dim2=-1)
        assert_equal(line, line[..., :1].expand_as(line), 1e-6)
    other = attention(-token.expand(1, 9, DIM), need_weights=True).weights
    assert other is not None and not torch.allclose(other, alike, atol=1e-3)

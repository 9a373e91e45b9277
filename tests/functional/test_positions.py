"""Sinusoids, compared with a loop of sines and cosines, and properties of rotations."""

import math

import pytest
import torch
from helpers.builders import assert_equal

from seq2seq.functional.positions import rotate, sinusoid


@pytest.mark.parametrize("dim", [1, 7, 8, 64])
def test_a_sinusoid_is_a_loop_of_sines_and_cosines(dim: int) -> None:
    positions = torch.tensor([0, 1, 2, 65, 257, 500])
    half = (dim + 1) // 2
    expected = []
    for p in positions.tolist():
        waves = [10_000 ** (-2 * i / dim) for i in range(half)]
        row = [math.sin(p * w) for w in waves] + [math.cos(p * w) for w in waves]
        expected.append(row[:dim])
    assert_equal(sinusoid(positions, dim), torch.tensor(expected), 1e-4)


def test_rows_may_have_different_positions() -> None:
    positions = torch.tensor([[3, 4], [0, 9]])
    vectors = sinusoid(positions, 6)
    assert vectors.shape == (2, 2, 6)
    for row in range(2):
        assert_equal(vectors[row], sinusoid(positions[row], 6))
    x = torch.randn(2, 3, 2, 6, dtype=torch.float64)
    turned = rotate(x, positions)
    for row in range(2):
        assert_equal(turned[row], rotate(x[row : row + 1], positions[row])[0])


def test_a_rotated_product_depends_on_the_distance_only() -> None:
    q, k = torch.randn(1, 1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 1, 8).double()

    def product(query_at: int, key_at: int) -> float:
        turned = rotate(q, torch.tensor([query_at])) * rotate(k, torch.tensor([key_at]))
        return turned.sum().item()

    for distance in (-3, 0, 1, 64):
        near = product(100 + distance, 100)
        assert product(1000 + distance, 1000) == pytest.approx(near, abs=1e-9)
    assert product(101, 100) != pytest.approx(product(102, 100), abs=1e-3)


def test_bfloat16_tells_far_positions_apart() -> None:
    x = torch.randn(1, 1, 2, 8)
    positions = torch.tensor([256, 257])  # the same number in bfloat16
    assert_equal(rotate(x.bfloat16(), positions).float(), rotate(x, positions), 3e-2)
    assert not torch.equal(*sinusoid(positions, 8))


def test_an_odd_head_width_is_refused() -> None:
    with pytest.raises(ValueError, match="even head width, not 7"):
        rotate(torch.zeros(1, 1, 1, 7), torch.zeros(1))

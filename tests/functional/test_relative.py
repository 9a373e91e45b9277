"""Biases by distance, compared with the formulas of their papers value by value."""

import math

import pytest
import torch
from helpers.builders import assert_equal

from seq2seq.functional.positions import alibi, bucket_starts, distances, t5_buckets


def test_a_distance_is_key_minus_query() -> None:
    assert distances(torch.tensor([0, 2]), 3).tolist() == [[0, 1, 2], [-2, -1, 0]]
    rows = distances(torch.tensor([[0], [2]]), 3)
    assert rows.tolist() == [[[0, 1, 2]], [[-2, -1, 0]]]


def test_alibi_is_the_slope_times_the_distance_on_both_sides() -> None:
    bias = alibi(distances(torch.tensor([1, 4]), 6), heads=4)
    for h in range(4):
        for row, i in enumerate((1, 4)):
            for j in range(6):
                assert bias[h, row, j].item() == -(2.0 ** (-2 * (h + 1))) * abs(i - j)


def test_rows_may_have_different_positions() -> None:
    bias = alibi(distances(torch.tensor([[3, 4], [0, 1]]), 5), heads=2)
    assert bias.shape == (2, 2, 2, 5)
    assert_equal(bias[0], alibi(distances(torch.tensor([3, 4]), 5), 2), 0)
    assert_equal(bias[1], alibi(distances(torch.tensor([0, 1]), 5), 2), 0)


def bucket_by_hand(distance: int, buckets: int, farthest: int, both_sides: bool) -> int:
    """The classes of Raffel et al. 2020 for key minus query, with a logarithm."""
    first = 0
    if both_sides:
        buckets //= 2
        first = buckets if distance > 0 else 0
        length = abs(distance)
    else:
        length = max(-distance, 0)
    single = buckets // 2
    if length < single:
        return first + length
    share = math.log(length / single) / math.log(farthest / single)
    # Rounding must not put a distance on the border of two classes into the lower one.
    return first + min(single + int(share * (buckets - single) + 1e-9), buckets - 1)


@pytest.mark.parametrize("both_sides", [True, False])
@pytest.mark.parametrize(
    ("buckets", "farthest"), [(32, 128), (32, 32), (8, 20), (4, 100), (6, 50), (64, 1000)]
)
def test_classes_of_distances_are_those_of_the_paper(
    buckets: int, farthest: int, both_sides: bool
) -> None:
    span = list(range(-2 * farthest, 2 * farthest + 1))
    starts = bucket_starts(buckets // 2 if both_sides else buckets, farthest)
    actual = t5_buckets(torch.tensor(span), torch.tensor(starts), both_sides)
    assert actual.tolist() == [bucket_by_hand(d, buckets, farthest, both_sides) for d in span]


def test_classes_of_the_published_model() -> None:
    # 16 for each side, 8 of them single: 8-11, 12-15, 16-22, ... and from 91 on the last.
    def classes(*distance: int) -> list[int]:
        starts = torch.tensor(bucket_starts(16, 128))
        return t5_buckets(torch.tensor(distance), starts, both_sides=True).tolist()

    assert classes(0, -1, -7, -8, -11, -12, -16) == [0, 1, 7, 8, 8, 9, 10]
    assert classes(1, 7, 8, 12, 16) == [17, 23, 24, 25, 26]
    assert classes(-90, -91, -128, -1000, 90, 91, 1000) == [14, 15, 15, 15, 30, 31, 31]


def test_each_class_of_distances_starts_after_the_previous_one() -> None:
    for buckets, farthest in ((32, 128), (16, 128), (2, 4), (5, 9)):
        starts = bucket_starts(buckets, farthest)
        assert len(starts) == buckets - 1
        assert starts == sorted(starts)

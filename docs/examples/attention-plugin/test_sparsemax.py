"""The contract of attention, and what makes this one special."""

import torch
from sparsemax_attention import Sparsemax, sparsemax

from seq2seq.testing import check_mechanism


def test_it_keeps_the_contract_of_attention() -> None:
    check_mechanism(Sparsemax, num_heads=4, num_kv_heads=2)


def test_weights_are_the_nearest_point_of_the_simplex() -> None:
    assert sparsemax(torch.tensor([3.0, 1.0, 0.0]), None).tolist() == [1.0, 0.0, 0.0]
    assert sparsemax(torch.tensor([0.5, 0.5, -1.0]), None).tolist() == [0.5, 0.5, 0.0]

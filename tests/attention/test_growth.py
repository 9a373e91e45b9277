"""Mechanisms that claim to cost less than T x S never hold T x S elements."""

import pytest
import torch
from cases import BUILT, DIM, Case, Largest, kernels

from seq2seq.attention import Role, build_attention
from seq2seq.testing.subject import make_inputs

LENGTH = 1500


def grows_with_the_length_alone(case: Case) -> bool:
    time = case.mechanism.cost(case.options).time
    first = case.kernel == kernels(case)[0] and not case.variant
    return first and case.model == "transformer" and "T S" not in time


CASES = [case for case in BUILT if grows_with_the_length_alone(case)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_tensor_has_an_element_for_every_query_and_key(case: Case) -> None:
    attention = case.build()
    if attention.max_length is not None:
        longer = {**case.options, "length": LENGTH}
        attention = build_attention(longer, attention.place).double()
    x, source, mask, _ = make_inputs(case, LENGTH)
    if source is not None:
        x = x.detach().repeat(1, LENGTH // x.shape[1], 1).requires_grad_()
    with Largest() as largest:
        attention(x, source, mask).out.square().sum().backward()
    rows = x.shape[0]
    assert largest.elements < LENGTH * LENGTH
    assert largest.elements >= rows * LENGTH * DIM  # the largest tensor was seen


@pytest.mark.parametrize("case", [c for c in CASES if c.role is Role.DECODER], ids=str)
@torch.no_grad()
def test_a_decoder_remembers_as_much_after_a_long_text_as_after_a_short_one(case: Case) -> None:
    attention, sizes = case.build(), []
    memory, start = attention.new_memory(), 0
    for length in (100, 400, 700):
        x = torch.randn(1, length - start, DIM, dtype=torch.float64)
        attention.advance(x, memory, torch.arange(start, length))
        start = length
        sizes.append(memory.nbytes)
    assert len(set(sizes)) == 1

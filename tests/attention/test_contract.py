"""The contract of attention: checks that hold for every mechanism, role, position and kernel.

The checks are in `seq2seq.testing`, where plug-ins can use them too. The mechanisms tested here
come from conf/attn and the tables, see `cases`.
"""

import pytest
import torch
from cases import BUILT, Case, by_default_kernel, every, shows_weights
from helpers.builders import assert_equal

from seq2seq.testing import CONTRACT, Check, comparisons
from seq2seq.testing.contract import (
    check_asking_for_weights,
    check_autocast,
    check_causality,
    check_kernels,
    check_only_padding,
    check_padding,
    check_precisions,
)
from seq2seq.testing.contract_of_memories import check_decoding, check_steps
from seq2seq.testing.subject import Placed, make_inputs

# Checks that depend on the kernel; the others test what lies around it.
OF_KERNELS = {
    *(check_asking_for_weights, check_autocast, check_causality, check_decoding),
    *(check_only_padding, check_padding, check_precisions, check_steps),
}


def sentences() -> list[tuple[Check, Case]]:
    """Every check with every case that it applies to."""
    return [
        (check, case)
        for check, holds_for in CONTRACT.items()
        for case in BUILT
        if holds_for(case) and (check in OF_KERNELS or by_default_kernel(case))
    ]


@pytest.mark.parametrize(
    ("check", "case"),
    [
        pytest.param(check, case, id=f"{check.__name__}-{case}", marks=case.marks)
        for check, case in sentences()
    ],
)
def test_the_contract_holds(check: Check, case: Case) -> None:
    check(case)


def groups_of_kernels() -> list[list[Case]]:
    """Cases that differ by their kernel only."""
    groups: dict[Case, list[Case]] = {}
    for case in BUILT:
        groups.setdefault(case._replace(kernel=""), []).append(case)
    return [group for group in groups.values() if len(group) > 1]


@pytest.mark.parametrize("group", groups_of_kernels(), ids=lambda group: str(group[0]))
def test_every_kernel_computes_the_same(group: list[Case]) -> None:
    check_kernels(group)


@every(by_default_kernel)
def test_every_declared_option_has_an_effect(case: Case) -> None:
    placed = Placed(case.mechanism, case.role, case.position, case.options)
    for check, subjects in comparisons(placed):
        if check is not check_kernels and len(subjects) > 1:
            check(subjects)


# The second weights of dynamic_context follow from an answer that dropout has already changed.
@every(
    by_default_kernel,
    shows_weights,
    lambda case: "dropout" in case.options and case.preset != "dynamic_context",
)
def test_returned_weights_are_those_before_dropout(case: Case) -> None:
    attention, (x, source, mask, real) = case.build().train(), make_inputs(case, 7)
    expected = attention(x, source, mask, need_weights=True)
    attention.dropout = 0.5
    answer = attention(x, source, mask, need_weights=True)
    assert not torch.allclose(answer.out[real], expected.out[real])
    assert_equal(answer.weights, expected.weights)

"""Attention in Triton is the formula written out, with every gradient, in every type."""

from types import ModuleType

import pytest
import torch
from attention_cases import SCALE, Case, cases, draw, options_of, reference
from helpers import assert_equal, gradients
from torch import Tensor

pytest.importorskip(
    "triton", minversion="3.7", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

from seq2seq.functional import (
    flash_additive_attention,
    flash_attention,
    triton_flash,
)
from seq2seq.functional.triton_flash import (
    triton_additive_attention,
    triton_attention,
)

CASES = list(cases(60))
# Sums run in float32; the inputs are the rounded ones of the reference, answers are rounded once.
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 0.12,  # the interpreter does not round to it, but cuts off
}


def check_case(
    case: Case,
    additive: bool,
    dtype: torch.dtype,
    device: torch.device,
    functions: ModuleType = triton_flash,
) -> None:
    """Compare the kernels' output and gradients with those of the reference."""
    given = draw(case, additive, dtype, device)
    attend = functions.triton_additive_attention if additive else functions.triton_attention
    scale = {} if additive else {"scale": SCALE}
    count = 4 if additive else 3
    q, k, *others = given.leaves[:count]
    ordered = (q, k, *reversed(others))  # u stands before the values
    torch.default_generator.manual_seed(3)
    out = attend(*ordered, **scale, **options_of(case, given))
    torch.default_generator.manual_seed(3)
    expected = reference(case, additive, given)
    assert out.dtype is dtype
    tolerance = TOLERANCES[dtype]
    assert_equal(out.double(), expected, tolerance)
    actual = gradients((out * given.slope).sum(), *given.leaves)
    wanted = gradients((expected * given.slope.double()).sum(), *given.leaves)
    for slope, right in zip(actual, wanted, strict=True):
        assert slope.dtype is dtype
        # Rounding adds up over the queries that a number is summed over, and the sum may be zero.
        summed = max(1, case.B * case.H * case.T // right[..., 0].numel())
        size = max(summed**0.5, float(right.abs().max()))
        assert_equal(slope.double() / size, right.double() / size, tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("additive", [False, True], ids=["dot", "additive"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_kernels_compute_the_formula_and_its_gradients(
    number: int, additive: bool, dtype: torch.dtype, device: torch.device
) -> None:
    check_case(CASES[number], additive, dtype, device)


@pytest.mark.parametrize("additive", [False, True], ids=["dot", "additive"])
def test_the_tiles_in_torch_drop_the_same_weights(additive: bool, device: torch.device) -> None:
    case = Case(2, 4, 2, 5, 19, 4, 4, "padding", (1, 4, 5, 19), True, 0.5)
    q, k, *others, bias = draw(case, additive, torch.float32, device).leaves
    options = {"bias": bias, "causal": True, "dropout": 0.5}
    answers: list[Tensor] = []
    for flash, additive_flash in (
        (flash_attention, flash_additive_attention),
        (triton_attention, triton_additive_attention),
    ):
        torch.default_generator.manual_seed(3)
        if additive:
            answers.append(additive_flash(q, k, others[1], others[0], **options))
        else:
            answers.append(flash(q, k, others[0], scale=SCALE, **options))
    assert_equal(*answers)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_no_queries_get_no_answer_and_no_keys_give_zeros(
    sizes: tuple[int, int], device: torch.device
) -> None:
    case = Case(2, 4, 2, *sizes, 4, 4, None, None, False, 0.0)
    q, k, v = draw(case, False, torch.float32, device).leaves
    out = triton_attention(q, k, v, scale=SCALE)
    assert out.shape == (2, 4, sizes[0], 4)
    assert not out.any()
    for slope in gradients(out.sum(), q, k, v):
        assert not slope.any()


def test_it_can_be_differentiated_once_and_says_so(device: torch.device) -> None:
    case = Case(1, 1, 1, 2, 3, 4, 4, None, None, False, 0.0)
    q, k, v = draw(case, False, torch.float32, device).leaves
    out = triton_attention(q, k, v, scale=SCALE)
    with pytest.raises(RuntimeError, match="only once.*take attn.kernel=explicit"):
        torch.autograd.grad(out.sum(), q, create_graph=True)

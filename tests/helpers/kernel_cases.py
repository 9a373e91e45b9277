"""Cases of the kernels for GPUs."""

from types import ModuleType

import torch
from attention_cases import SCALE, Case, cases, draw, options_of, reference

from helpers.builders import assert_equal, gradients
from seq2seq.functional import (
    triton_flash,
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

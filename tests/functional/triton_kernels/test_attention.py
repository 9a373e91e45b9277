"""Attention in Triton equals the explicit formula, with every gradient, in every type."""

import pytest
import torch
from attention_cases import CASES, SCALE, TOLERANCES, Case, check_case, draw
from helpers.builders import assert_equal, gradients
from torch import Tensor

pytest.importorskip(
    "triton", minversion="3.6", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

from seq2seq.functional import flash_additive_attention, flash_attention, triton_flash
from seq2seq.functional.triton_flash import triton_additive_attention, triton_attention


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("additive", [False, True], ids=["dot", "additive"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_kernels_compute_the_formula_and_its_gradients(
    number: int, additive: bool, dtype: torch.dtype, device: torch.device
) -> None:
    check_case(CASES[number], additive, dtype, device, triton_flash)


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
def test_without_queries_there_is_no_answer_and_without_keys_it_is_zero(
    sizes: tuple[int, int], device: torch.device
) -> None:
    case = Case(2, 4, 2, *sizes, 4, 4, None, None, False, 0.0)
    q, k, v = draw(case, False, torch.float32, device).leaves
    out = triton_attention(q, k, v, scale=SCALE)
    assert out.shape == (2, 4, sizes[0], 4)
    assert not out.any()
    for slope in gradients(out.sum(), q, k, v):
        assert not slope.any()


def test_a_second_derivative_is_refused(device: torch.device) -> None:
    case = Case(1, 1, 1, 2, 3, 4, 4, None, None, False, 0.0)
    q, k, v = draw(case, False, torch.float32, device).leaves
    out = triton_attention(q, k, v, scale=SCALE)
    with pytest.raises(RuntimeError, match="only once.*take attn.kernel=explicit"):
        torch.autograd.grad(out.sum(), q, create_graph=True)

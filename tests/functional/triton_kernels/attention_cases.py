"""Ragged cases of attention for its kernels, with the reference that they are compared with."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from helpers.builders import assert_equal, gradients
from torch import Tensor

from seq2seq.functional import explicit_attention
from seq2seq.functional.dropout import keep_factors_at
from seq2seq.functional.flash import draw_seed
from seq2seq.functional.scores import dot
from seq2seq.functional.softmax import causal_mask

SCALE = 0.4
# Sums run in float32; the inputs are the rounded ones of the reference, answers are rounded once.
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 0.12,  # the interpreter does not round to it, but cuts off
}


class Case(NamedTuple):
    """Shapes and options; None = without."""

    B: int
    H: int
    G: int  # of the values, and of a dot product's keys
    T: int
    S: int
    D: int
    M: int
    mask: str | None
    bias: tuple[int, ...] | None  # its shape
    causal: bool
    dropout: float


class Given(NamedTuple):
    """The inputs of a case; what needs a gradient comes first."""

    leaves: tuple[Tensor, ...]  # q, k, v, and where there are any u and the bias
    mask: Tensor | None
    slope: Tensor  # the gradient of the output


def cases(count: int) -> Iterator[Case]:
    """Cases with all options, of sizes around those of blocks; the same at each call."""
    generator = torch.Generator().manual_seed(7)

    def choose(*values: Any) -> Any:
        return values[int(torch.randint(len(values), (), generator=generator))]

    for n in range(count):
        H, G = choose((1, 1), (2, 1), (2, 2), (4, 2))
        B, T, S = choose(1, 2), choose(1, 3, 5, 16, 17, 21), choose(1, 2, 7, 16, 19, 33)
        # The gradient of what is added to all keys is zero, so most biases are as wide as the keys.
        axes = choose(B, 1), choose(H, 1), choose(T, 1), choose(S, S, S, 1)
        bias = axes if n % 2 else None
        mask = (None, "padding", "any", "empty")[n % 4]
        dropout = (0.0, 0.0, 0.25)[n % 3]
        yield Case(B, H, G, T, S, choose(1, 4, 6), choose(3, 4, 17), mask, bias, n % 5 > 2, dropout)


CASES = list(cases(60))


def draw(case: Case, additive: bool, dtype: torch.dtype, device: torch.device) -> Given:
    """Random inputs, the same for each type but for its rounding."""
    generator = torch.Generator().manual_seed(sum(case[:7]))

    def normal(*shape: int, size: float = 1.0) -> Tensor:
        x = size * torch.randn(shape, generator=generator, dtype=torch.float64)
        return x.to(device, dtype).requires_grad_()

    B, H, G, T, S, D, M = case[:7]
    # Keys and values as a memory has them, their heads beside each other.
    k, v = normal(B, S, H if additive else G, D), normal(B, S, G, M)
    leaves = normal(B, H, T, D), k.transpose(1, 2), v.transpose(1, 2)
    if additive:
        leaves += (normal(H, D),)
    if case.bias is not None:
        leaves += (normal(*case.bias),)
    slope = normal(B, H, T, M).detach()
    return Given(leaves, hidden_keys(case, generator, device), slope)


def hidden_keys(case: Case, generator: torch.Generator, device: torch.device) -> Tensor | None:
    """The mask of a case: of padding, or of anything, also with queries that may read nothing."""
    if case.mask is None:
        return None
    if case.mask == "padding":
        lengths = torch.randint(case.S + 1, (case.B, 1, 1, 1), generator=generator)
        return (torch.arange(case.S) < lengths).to(device)
    shape = case.B, case.H, case.T, case.S
    mask = torch.rand(shape, generator=generator) < 0.6
    if case.mask == "empty":
        mask[0, :, case.T // 2] = False
    return mask.to(device)


def options_of(case: Case, given: Given) -> dict[str, Any]:
    """What all attentions take as keyword arguments."""
    bias = None if case.bias is None else given.leaves[-1]
    return {"mask": given.mask, "bias": bias, "causal": case.causal, "dropout": case.dropout}


def reference(case: Case, additive: bool, given: Given) -> Tensor:
    """The formula written out in float64, with the dropout of the seed that is drawn next."""
    q, k, v, *others = (x.double() for x in given.leaves)
    if additive:
        scores = ((q[:, :, :, None] + k[:, :, None]).tanh() * others[0][:, None, None]).sum(-1)
    else:
        scores = dot(q, k, SCALE)
    mask = given.mask
    if case.causal:
        past = causal_mask(case.T, case.S, case.S - case.T, device=q.device)
        mask = past if mask is None else mask & past
    bias = None if case.bias is None else others[-1]
    weights = explicit_attention(scores, v, mask=mask, bias=bias)[1]
    seed = draw_seed(case.dropout)
    if case.dropout > 0:
        rows = torch.arange(case.B * case.H * case.T, device=q.device).view(weights.shape[:3])
        columns = torch.arange(case.S, device=q.device)
        weights = weights * keep_factors_at(seed, rows, columns, case.dropout, weights)
    return weights @ v.repeat_interleave(case.H // case.G, dim=1)


def check_case(
    case: Case,
    additive: bool,
    dtype: torch.dtype,
    device: torch.device,
    functions: ModuleType,
) -> None:
    """Compare the output and the gradients of a module of kernels with those of the reference."""
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

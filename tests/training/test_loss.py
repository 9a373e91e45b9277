"""The chunked loss against torch's own, gradients included."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.builders import assert_equal, gradients
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.training.loss import cross_entropy

R, E, V = 7, 5, 13


def problem(rows: int = R, dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Linear, Tensor]:
    """Hidden states that need a gradient, an output layer and target ids, some of them twice."""
    hidden = torch.randn(rows, E, dtype=dtype, requires_grad=True)
    output = nn.Linear(E, V, dtype=dtype)
    return hidden, output, torch.randint(V // 2, (rows,))


def torchs(hidden: Tensor, output: nn.Linear, target: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(output(hidden), target, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 256])
def test_the_loss_is_that_of_torch_with_gradients(chunk: int, smoothing: float) -> None:
    hidden, output, target = problem()
    ours = cross_entropy(hidden, output, target, smoothing=smoothing, chunk=chunk)
    expected = torchs(hidden, output, target, smoothing)
    assert_equal(ours.smoothed, expected)
    assert_equal(ours.nll, torchs(hidden, output, target, 0.0).detach())
    inputs = hidden, output.weight, output.bias
    # A factor, as that of gradient accumulation, reaches the gradients.
    assert_equal(gradients(3 * ours.smoothed, *inputs), gradients(3 * expected, *inputs))


def test_the_loss_is_that_of_pencil_and_paper() -> None:
    output = nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():  # scores 0 and log 3, so probabilities 1/4 and 3/4
        output.weight.copy_(torch.tensor([[1.0], [3.0]], dtype=torch.float64).log())
        output.bias.zero_()
    hidden, target = torch.ones(1, 1, dtype=torch.float64), torch.tensor([0])
    loss = cross_entropy(hidden, output, target, smoothing=0.5)
    log = torch.tensor([4.0, 4 / 3], dtype=torch.float64).log()
    assert_equal(loss.nll, log[0])
    assert_equal(loss.smoothed, 0.75 * log[0] + 0.25 * log[1])


def test_finite_differences_agree() -> None:
    hidden, output, target = problem(3)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        layer: Any = SimpleNamespace(weight=weight, bias=bias)
        return cross_entropy(hidden, layer, target, smoothing=0.1, chunk=2).smoothed

    weight, bias = (p.detach().clone().requires_grad_() for p in output.parameters())
    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


def test_no_rows_cost_nothing() -> None:
    hidden, output, target = problem(0)
    loss = cross_entropy(hidden, output, target, smoothing=0.1)
    assert loss.smoothed.item() == loss.nll.item() == 0
    loss.smoothed.backward()
    assert hidden.grad is not None and hidden.grad.shape == (0, E)
    assert output.weight.grad is not None and not output.weight.grad.any()
    assert output.bias.grad is not None and not output.bias.grad.any()


def test_pieces_of_a_batch_add_up_to_its_gradients() -> None:
    hidden, output, target = problem()
    inputs = hidden, output.weight, output.bias
    whole = gradients(cross_entropy(hidden, output, target, smoothing=0.1).smoothed, *inputs)
    for pieces in ([1, 6], [3, 3, 1], [0, 7], [1] * 7):
        total = torch.zeros((), dtype=torch.float64)
        for h, t in zip(hidden.split(pieces), target.split(pieces), strict=True):
            total = total + cross_entropy(h, output, t, smoothing=0.1).smoothed
        assert_equal(gradients(total, *inputs), whole)


def test_a_tied_output_matrix_gets_the_gradient_of_both_its_uses() -> None:
    ids, target = torch.randint(V, (R,)), torch.randint(V, (R,))
    slopes = []
    for loss in (
        lambda h, o: cross_entropy(h, o, target).smoothed,
        lambda h, o: torchs(h, o, target, 0),
    ):
        torch.default_generator.manual_seed(1)
        embedding, output = nn.Embedding(V, E).double(), nn.Linear(E, V).double()
        output.weight = embedding.weight
        slopes.append(gradients(loss(embedding(ids).tanh(), output), embedding.weight))
    assert_equal(slopes[0], slopes[1])


def test_scores_of_any_size_do_not_overflow() -> None:
    hidden, output, target = problem(dtype=torch.float32)
    with torch.no_grad():
        output.weight.mul_(1e4)
    loss = cross_entropy(hidden, output, target, smoothing=0.1)
    assert_equal(loss.smoothed, torchs(hidden, output, target, 0.1), 1e-4)
    assert all(slope.isfinite().all() for slope in gradients(loss.smoothed, hidden, output.weight))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_mixed_precision_is_near_and_sums_in_float32(kind: torch.dtype) -> None:
    hidden, output, target = problem(700, torch.float32)
    expected = torchs(hidden, output, target, 0.1)
    inputs = hidden, output.weight, output.bias
    slopes = gradients(expected, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy(hidden.to(kind), output, target, smoothing=0.1)
    assert loss.smoothed.dtype is torch.float32
    assert_equal(loss.smoothed, expected, 1e-2)
    for mine, other in zip(gradients(loss.smoothed, *inputs), slopes, strict=True):
        assert mine.dtype is torch.float32
        assert (mine - other).norm() < 0.02 * other.norm()


def test_without_gradients_the_loss_is_the_same() -> None:
    hidden, output, target = problem()
    expected = cross_entropy(hidden, output, target, smoothing=0.1)
    with torch.no_grad():
        loss = cross_entropy(hidden, output, target, smoothing=0.1)
    assert not loss.smoothed.requires_grad and not expected.nll.requires_grad
    assert_equal(loss.smoothed, expected.smoothed.detach())


def test_the_inputs_are_not_changed() -> None:
    hidden, output, target = problem()
    before = [x.detach().clone() for x in (hidden, output.weight, output.bias, target)]
    cross_entropy(hidden, output, target, smoothing=0.1, chunk=2).smoothed.backward()
    for x, old in zip((hidden, output.weight, output.bias, target), before, strict=True):
        assert torch.equal(x, old)

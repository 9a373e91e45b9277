"""The loss of two dropouts against torch's own divergence, gradients included."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.builders import (
    TARGET_SIZE,
    assert_equal,
    gradients,
    model_config,
    small_model,
)
from helpers.consistency import E, Largest, R, batch_of, problem
from helpers.tiny_runs import metrics, train_tiny, weights
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.base.symbols import PAD
from seq2seq.models import PassOptions, build_model
from seq2seq.training.guided import GuidedHead, align_loss
from seq2seq.training.loss import batch_loss, cross_entropy, r_drop


def torchs(
    hidden: Tensor, output: nn.Linear, target: Tensor, alpha: float, smoothing: float
) -> Tensor:
    """Half of the paper's: -log p - log q + alpha / 2 (KL(p || q) + KL(q || p))."""
    p, q = output(hidden).log_softmax(-1).chunk(2)
    one, other = (
        F.cross_entropy(x, target, reduction="sum", label_smoothing=smoothing) for x in (p, q)
    )
    divergence = F.kl_div(q, p, reduction="sum", log_target=True)
    divergence = divergence + F.kl_div(p, q, reduction="sum", log_target=True)
    return (one + other + alpha / 2 * divergence) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("chunk", [1, 3, 7, 128])
def test_the_loss_of_two_dropouts_is_that_of_torch_with_gradients(
    chunk: int, alpha: float, smoothing: float
) -> None:
    hidden, output, target = problem()
    loss, nll, _ = r_drop(hidden, output, target, alpha=alpha, smoothing=smoothing, chunk=chunk)
    expected = torchs(hidden, output, target, alpha, smoothing)
    assert_equal(loss, expected)
    assert_equal(nll, torchs(hidden, output, target, 0.0, 0.0).detach())
    inputs = hidden, output.weight, output.bias
    # A factor, as that of gradient accumulation, reaches the gradients.
    assert_equal(gradients(3 * loss, *inputs), gradients(3 * expected, *inputs))


def test_the_loss_of_two_dropouts_is_that_of_pencil_and_paper() -> None:
    output = nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():  # a state h has the scores 0 and h
        output.weight.copy_(torch.tensor([[0.0], [1.0]]))
        output.bias.zero_()
    # The probabilities 1/4 and 3/4 of one dropout, 1/2 and 1/2 of the other. Their two divergences
    # add up to the sum of (p - q) (log p - log q) = -1/4 log 1/2 + 1/4 log 3/2 = 1/4 log 3.
    hidden = torch.tensor([[math.log(3)], [0.0]], dtype=torch.float64)
    loss, nll, _ = r_drop(hidden, output, torch.tensor([0]), alpha=8.0)
    expected = (math.log(4) + math.log(2)) / 2
    assert nll.item() == pytest.approx(expected)
    assert loss.item() == pytest.approx(expected + 8 / 4 * math.log(3) / 4)


def test_finite_differences_agree_with_the_loss_of_two_dropouts() -> None:
    hidden, output, target = problem(3)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        layer: Any = SimpleNamespace(weight=weight, bias=bias)
        return r_drop(hidden, layer, target, alpha=5.0, smoothing=0.1, chunk=2).smoothed

    weight, bias = (p.detach().clone().requires_grad_() for p in output.parameters())
    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


def test_two_dropouts_that_agree_cost_what_one_does_whatever_alpha_is() -> None:
    hidden, output, target = problem()
    inputs = hidden, output.weight, output.bias
    once = hidden[:R]
    plain = cross_entropy(once, output, target, smoothing=0.1)
    loss, nll, _ = r_drop(once.repeat(2, 1), output, target, alpha=50.0, smoothing=0.1)
    assert_equal(loss, plain.smoothed)
    assert_equal(nll, plain.nll)
    assert_equal(gradients(loss, *inputs), gradients(plain.smoothed, *inputs))


def test_which_of_the_two_dropouts_comes_first_changes_nothing() -> None:
    hidden, output, target = problem()
    swapped = hidden.roll(R, dims=0)
    one, other = (r_drop(h, output, target, alpha=5.0).smoothed for h in (hidden, swapped))
    assert_equal(one, other)
    assert_equal(gradients(one, hidden), gradients(other, hidden))


def test_no_tokens_cost_nothing_under_two_dropouts() -> None:
    hidden, output, target = problem(0)
    loss, nll, _ = r_drop(hidden, output, target, alpha=5.0, smoothing=0.1)
    assert loss.item() == nll.item() == 0
    loss.backward()
    assert hidden.grad is not None and hidden.grad.shape == (0, E)
    assert output.weight.grad is not None and not output.weight.grad.any()


def test_pieces_of_a_batch_add_up_under_two_dropouts() -> None:
    hidden, output, target = problem()
    inputs = hidden, output.weight, output.bias
    whole = gradients(r_drop(hidden, output, target, alpha=5.0).smoothed, *inputs)
    one, other = hidden.chunk(2)
    total = torch.zeros((), dtype=torch.float64)
    for pieces in (slice(0, 2), slice(2, 2), slice(2, 7)):
        pair = torch.cat((one[pieces], other[pieces]))
        total = total + r_drop(pair, output, target[pieces], alpha=5.0).smoothed
    assert_equal(gradients(total, *inputs), whole)


def test_the_scores_of_the_batch_are_never_held() -> None:
    hidden, output, target = problem(100)
    with Largest() as largest:
        r_drop(hidden, output, target, alpha=5.0, smoothing=0.1, chunk=10).smoothed.backward()
    assert largest.size == 2 * 100 * E  # the states; chunks of scores have 2 * 10 * V


def test_under_two_dropouts_scores_of_any_size_do_not_overflow() -> None:
    hidden, output, target = problem(dtype=torch.float32)
    with torch.no_grad():
        output.weight.mul_(1e4)
    loss = r_drop(hidden, output, target, alpha=5.0, smoothing=0.1).smoothed
    assert loss.isfinite()
    assert all(slope.isfinite().all() for slope in gradients(loss, hidden, output.weight))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_under_two_dropouts_mixed_precision_is_near_and_sums_in_float32(kind: torch.dtype) -> None:
    hidden, output, target = problem(350, torch.float32)
    expected = torchs(hidden, output, target, 5.0, 0.1)
    inputs = hidden, output.weight, output.bias
    slopes = gradients(expected, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = r_drop(hidden.to(kind), output, target, alpha=5.0, smoothing=0.1).smoothed
    assert loss.dtype is torch.float32
    assert_equal(loss, expected, 1e-2)
    for mine, other in zip(gradients(loss, *inputs), slopes, strict=True):
        assert mine.dtype is torch.float32
        assert (mine - other).norm() < 0.02 * other.norm()


def test_the_loss_of_a_batch_is_that_of_two_passes_of_the_model_in_training() -> None:
    model = small_model("transformer", "model.dropout=0.3").train()
    batch, guide = batch_of(5, 2, 3), GuidedHead(0, 1, 0.1)
    labels = batch.target[:, 1:]
    real = labels != PAD
    torch.manual_seed(1)
    loss = batch_loss(model, batch, 0.1, guide, alpha=5.0)
    torch.manual_seed(1)
    twice = (side.repeat(2, 1) for side in (batch.source, batch.target[:, :-1]))
    hidden, seen = model(*twice, PassOptions((0,)))
    one, other = hidden.chunk(2)
    assert not torch.equal(one, other)
    states = torch.cat((one[real], other[real]))
    assert_equal(loss.smoothed, torchs(states, model.embeddings.output, labels[real], 5.0, 0.1))
    assert batch.tokens == int(real.sum()) == 5 + 2 + 3 + 3
    assert batch.links is not None and loss.align is not None
    aligned = [align_loss(half, batch.links) for half in seen[0, :, 1].chunk(2)]
    assert_equal(loss.align, (aligned[0] + aligned[1]) / 2)


@pytest.mark.parametrize("model", ["transformer", "rnn", "rnn_luong"])
def test_two_dropouts_give_gradients_to_every_parameter_of_every_model(model: str) -> None:
    built = build_model(model_config(model), 13, TARGET_SIZE).train()
    batch_loss(built, batch_of(5, 2), 0.1, alpha=5.0).smoothed.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())


@pytest.mark.slow  # that of SimCut runs always
def test_a_run_with_r_drop_is_resumed_exactly_and_logs_the_likelihood_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.getbasetemp()
    options = ("loss.r_drop=5", "model.dropout=0.2", "data.max_tokens=1024", "schedule.steps=4")
    whole = train_tiny(base, *options, "trainer.max_steps=4")
    first = train_tiny(base, *options, "trainer.max_steps=2")
    resumed = train_tiny(base, *options, "trainer.max_steps=4", f"resume={first / 'last.ckpt'}")
    expected = weights(whole)
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed).items())
    # Untrained, every one of 400 pieces is about as likely as another.
    assert metrics(whole, "train/loss")[0] == pytest.approx(math.log(400), rel=0.15)


def test_a_dry_run_tries_r_drop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tiny(tmp_path, "loss.r_drop=5", "dry_run=true")
    assert "memory" in capsys.readouterr().out

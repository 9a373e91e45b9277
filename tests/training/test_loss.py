"""The losses of a batch against torch's own, gradients included: cross-entropy, R-Drop, SimCut."""

import math
from functools import partial
from itertools import product
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
    source_batch,
)
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import Batch, draw_cuts, pair_batch
from seq2seq.data.links.piece_links import BatchLinks
from seq2seq.models import PassOptions, Seq2Seq, build_model
from seq2seq.training.guided import GuidedHead, align_loss
from seq2seq.training.loss import Loss, batch_loss, cross_entropy, two_pass_loss

R, E, V = 7, 5, 13  # tokens, width of a state, words
ALPHA, SMOOTHING = 5.0, 0.1
TWO_PASSES = {
    "r_drop": partial(two_pass_loss, is_cut=False),
    "simcut": partial(two_pass_loss, is_cut=True),
}

every_loss = pytest.mark.parametrize("name", ["cross_entropy", *TWO_PASSES])
two_passes = pytest.mark.parametrize("name", TWO_PASSES)


def loss_of(
    name: str,
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    *,
    alpha: float = ALPHA,
    smoothing: float = SMOOTHING,
    chunk: int | None = None,
) -> Loss:
    options: Any = {"smoothing": smoothing, "chunk": chunk}
    if name == "cross_entropy":
        return cross_entropy(hidden, output, target, **options)
    return TWO_PASSES[name](hidden, output, target, alpha=alpha, **options)


def reference(
    name: str,
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    *,
    alpha: float = ALPHA,
    smoothing: float = SMOOTHING,
) -> Tensor:
    """The loss from the scores of the whole batch at once, by torch's own functions.

    R-Drop is half of the paper's: -log p - log q + alpha / 2 (KL(p || q) + KL(q || p)); SimCut is
    -log p + alpha KL(p || q).
    """
    p, *second = output(hidden).log_softmax(-1).split(len(target) or 1)
    one, *other = (
        F.cross_entropy(x, target, reduction="sum", label_smoothing=smoothing) for x in (p, *second)
    )
    if name == "cross_entropy":
        return one
    (q,) = second
    divergence = F.kl_div(q, p, reduction="sum", log_target=True)
    if name == "simcut":
        return one + alpha * divergence
    divergence = divergence + F.kl_div(p, q, reduction="sum", log_target=True)
    return (one + other[0] + alpha / 2 * divergence) / 2


def problem(
    name: str, tokens: int = R, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, nn.Linear, Tensor]:
    """Hidden states of each token, an output layer and target ids, some of them twice."""
    passes = 2 if name in TWO_PASSES else 1
    hidden = torch.randn(passes * tokens, E, dtype=dtype, requires_grad=True)
    return hidden, nn.Linear(E, V, dtype=dtype), torch.randint(V // 2, (tokens,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("chunk", [1, 3, 7, 128])
@pytest.mark.parametrize(
    ("name", "alpha"), [("cross_entropy", 0.0), *product(TWO_PASSES, (0.0, 1.0, 5.0))]
)
def test_the_loss_and_its_gradients_are_those_of_torch(
    name: str, alpha: float, chunk: int, smoothing: float
) -> None:
    given = hidden, output, _ = problem(name)
    loss, nll, _ = loss_of(name, *given, alpha=alpha, smoothing=smoothing, chunk=chunk)
    expected = reference(name, *given, alpha=alpha, smoothing=smoothing)
    assert_equal(loss, expected)
    assert_equal(nll, reference(name, *given, alpha=0.0, smoothing=0.0).detach())
    inputs = hidden, output.weight, output.bias
    # A factor, as that of gradient accumulation, reaches the gradients.
    assert_equal(gradients(3 * loss, *inputs), gradients(3 * expected, *inputs))


# The probabilities 1/4 and 3/4 of one pass, 1/2 and 1/2 of the other.
ONE_WAY = math.log(1 / 2) / 4 + 3 / 4 * math.log(3 / 2)
BOTH_WAYS = math.log(3) / 4  # the sum of (p - q) (log p - log q)
BY_HAND = {  # the likelihood alone, and what is added to it
    "cross_entropy": (math.log(4), -0.25 * math.log(3)),  # smoothing moves 1/4 to the other word
    "r_drop": ((math.log(4) + math.log(2)) / 2, 8 / 4 * BOTH_WAYS),
    "simcut": (math.log(4), 8 * ONE_WAY),
}


@every_loss
def test_the_loss_is_that_of_pencil_and_paper(name: str) -> None:
    output = nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():  # a state h has the scores 0 and h
        output.weight.copy_(torch.tensor([[0.0], [1.0]]))
        output.bias.zero_()
    states = [[math.log(3)], [0.0]] if name in TWO_PASSES else [[math.log(3)]]
    hidden = torch.tensor(states, dtype=torch.float64, requires_grad=True)
    smoothing = 0.0 if name in TWO_PASSES else 0.5
    loss, nll, _ = loss_of(name, hidden, output, torch.tensor([0]), alpha=8.0, smoothing=smoothing)
    likelihood, more = BY_HAND[name]
    assert nll.item() == pytest.approx(likelihood)
    assert loss.item() == pytest.approx(likelihood + more)
    if name == "simcut":  # p - t + alpha p (d - KL) at the second word, and alpha (q - p)
        (slope,) = gradients(loss, hidden)
        untouched = 3 / 4 + 8 * 3 / 4 * (math.log(3 / 2) - ONE_WAY)
        assert slope.flatten().tolist() == pytest.approx([untouched, 8 * (1 / 2 - 3 / 4)])


@every_loss
def test_finite_differences_agree(name: str) -> None:
    hidden, output, target = problem(name, 3)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        layer: Any = SimpleNamespace(weight=weight, bias=bias)
        return loss_of(name, hidden, layer, target, chunk=2).smoothed

    weight, bias = (p.detach().clone().requires_grad_() for p in output.parameters())
    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


@two_passes
def test_two_passes_that_agree_cost_what_one_does_whatever_alpha_is(name: str) -> None:
    hidden, output, target = problem("cross_entropy")
    inputs = hidden, output.weight, output.bias
    plain = loss_of("cross_entropy", hidden, output, target)
    loss, nll, _ = loss_of(name, hidden.repeat(2, 1), output, target, alpha=50.0)
    assert_equal(loss, plain.smoothed)
    assert_equal(nll, plain.nll)
    assert_equal(gradients(loss, *inputs), gradients(plain.smoothed, *inputs))


def test_which_of_two_dropouts_comes_first_changes_nothing() -> None:
    hidden, *given = problem("r_drop")
    swapped = hidden.roll(R, dims=0)
    one, other = (loss_of("r_drop", h, *given).smoothed for h in (hidden, swapped))
    assert_equal(one, other)
    assert_equal(gradients(one, hidden), gradients(other, hidden))


@every_loss
def test_no_tokens_cost_nothing(name: str) -> None:
    hidden, output, target = problem(name, 0)
    loss, nll, _ = loss_of(name, hidden, output, target)
    assert loss.item() == nll.item() == 0
    loss.backward()
    assert hidden.grad is not None and hidden.grad.shape == (0, E)
    assert all(p.grad is not None and not p.grad.any() for p in output.parameters())


@every_loss
def test_pieces_of_a_batch_add_up_to_its_gradients(name: str) -> None:
    hidden, output, target = problem(name)
    inputs = hidden, output.weight, output.bias
    whole = gradients(loss_of(name, hidden, output, target).smoothed, *inputs)
    for sizes in ([1, 6], [3, 3, 1], [0, 7], [1] * 7):
        passes = [states.split(sizes) for states in hidden.split(R)]
        total = torch.zeros((), dtype=torch.float64)
        for *states, ids in zip(*passes, target.split(sizes), strict=True):
            total = total + loss_of(name, torch.cat(states), output, ids).smoothed
        assert_equal(gradients(total, *inputs), whole)


def test_a_tied_output_matrix_gets_the_gradient_of_both_its_uses() -> None:
    ids, target = torch.randint(V, (R,)), torch.randint(V, (R,))
    slopes = []
    for loss in (lambda *given: cross_entropy(*given).smoothed, in_whole):
        torch.default_generator.manual_seed(1)
        embedding, output = nn.Embedding(V, E).double(), nn.Linear(E, V).double()
        output.weight = embedding.weight
        slopes.append(gradients(loss(embedding(ids).tanh(), output, target), embedding.weight))
    assert_equal(slopes[0], slopes[1])


def in_whole(hidden: Tensor, output: nn.Linear, target: Tensor) -> Tensor:
    return reference("cross_entropy", hidden, output, target, smoothing=0.0)


class Largest(TorchDispatchMode):
    """The size of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, Tensor):
                self.size = max(self.size, each.numel())
        return made


@two_passes
def test_the_scores_of_the_batch_are_never_held(name: str) -> None:
    hidden, output, target = problem(name, 100)
    with Largest() as largest:
        loss_of(name, hidden, output, target, chunk=10).smoothed.backward()
    assert largest.size == 2 * 100 * E > 2 * 10 * V  # the states; scores of a chunk


@every_loss
def test_scores_of_any_size_do_not_overflow(name: str) -> None:
    hidden, output, target = problem(name, dtype=torch.float32)
    with torch.no_grad():
        output.weight.mul_(1e4)
    loss = loss_of(name, hidden, output, target).smoothed
    assert_equal(loss, reference(name, hidden, output, target), 1e-4)
    assert all(slope.isfinite().all() for slope in gradients(loss, hidden, output.weight))


@every_loss
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_mixed_precision_is_near_and_sums_in_float32(name: str, kind: torch.dtype) -> None:
    hidden, output, target = problem(name, 700, torch.float32)
    expected = reference(name, hidden, output, target)
    inputs = hidden, output.weight, output.bias
    slopes = gradients(expected, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(name, hidden.to(kind), output, target).smoothed
    assert loss.dtype is torch.float32
    assert_equal(loss, expected, 1e-2)
    for mine, other in zip(gradients(loss, *inputs), slopes, strict=True):
        assert mine.dtype is torch.float32
        assert (mine - other).norm() < 0.02 * other.norm()


@every_loss
def test_without_gradients_the_loss_is_the_same_and_inputs_never_change(name: str) -> None:
    given = hidden, output, target = problem(name)
    before = [x.detach().clone() for x in (hidden, output.weight, output.bias, target)]
    expected = loss_of(name, *given, chunk=2)
    with torch.no_grad():
        loss = loss_of(name, *given, chunk=2)
    assert not loss.smoothed.requires_grad and not expected.nll.requires_grad
    assert_equal(loss.smoothed, expected.smoothed.detach())
    expected.smoothed.backward()
    for x, old in zip((hidden, output.weight, output.bias, target), before, strict=True):
        assert torch.equal(x, old)


def batch_of(*lengths: int) -> Batch:
    """Sentences with targets of these lengths, each with a link between the first pieces."""
    target = torch.full((len(lengths), max(lengths) + 2), PAD)
    for row, length in zip(target, lengths, strict=True):
        row[0], row[1 : length + 1], row[length + 1] = BOS, torch.randint(4, TARGET_SIZE, ()), EOS
    rows = torch.arange(len(lengths))
    first = torch.zeros_like(rows)
    links = BatchLinks(torch.stack((rows, first, first)), torch.ones(len(rows)), len(rows), 9)
    return pair_batch(source_batch(*lengths), target, 99, range(len(lengths)), links)


def test_r_drop_of_a_batch_is_that_of_two_passes_of_the_model_in_training() -> None:
    model = small_model("transformer", "model.dropout=0.3").train()
    batch, guide = batch_of(5, 2, 3), GuidedHead(0, 1, 0.1)
    labels = batch.target[:, 1:]
    real = labels != PAD
    torch.manual_seed(1)
    loss = batch_loss(model, batch, SMOOTHING, guide, ALPHA)
    torch.manual_seed(1)
    twice = (side.repeat(2, 1) for side in (batch.source, batch.target[:, :-1]))
    hidden, seen = model(*twice, PassOptions((0,)))
    one, other = hidden.chunk(2)
    assert not torch.equal(one, other)
    states, output = torch.cat((one[real], other[real])), model.embeddings.output
    expected = reference("r_drop", states, output, labels[real])
    assert_equal(loss.smoothed, expected)
    assert batch.tokens == int(real.sum()) == 5 + 2 + 3 + 3
    assert batch.links is not None and loss.align is not None
    aligned = [align_loss(half, batch.links) for half in seen[0, :, 1].chunk(2)]
    assert_equal(loss.align, (aligned[0] + aligned[1]) / 2)


def hidden_with_zeroed(model: Seq2Seq, source: Tensor, given: Tensor, cuts: Any) -> Tensor:
    """The hidden states of a pass whose embeddings are zeroed from outside."""

    def zeroed(cut: Tensor) -> Any:
        return lambda module, given, embedded: embedded * ~cut[..., None]

    sides = zip((model.embeddings.source, model.embeddings.target), cuts, strict=True)
    hooks = [matrix.register_forward_hook(zeroed(cut)) for matrix, cut in sides]
    try:
        return model(source, given).hidden
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize(
    "model", ["transformer", "transformer position=rope", "rnn", "rnn_luong model.cell=lstm"]
)
def test_simcut_of_a_batch_is_that_of_two_separate_passes(model: str) -> None:
    name, *options = model.split()
    built = small_model(name, *options)
    batch = batch_of(5, 2, 3)
    cuts = draw_cuts(batch, 0.5, seed=2, epoch=0)
    assert all(cut.any() for cut in cuts)
    batch = batch._replace(cuts=cuts, links=None)
    labels = batch.target[:, 1:]
    real, given = labels != PAD, batch.target[:, :-1]
    untouched = built(batch.source, given).hidden[real]
    states = torch.cat((untouched, hidden_with_zeroed(built, batch.source, given, cuts)[real]))
    output = built.embeddings.output
    expected = reference("simcut", states, output, labels[real])
    loss = batch_loss(built, batch, SMOOTHING, alpha=ALPHA)
    assert_equal(loss.smoothed, expected)
    parameters = list(built.parameters())
    assert_equal(gradients(loss.smoothed, *parameters), gradients(expected, *parameters))


def test_a_guided_head_learns_from_the_untouched_pass() -> None:
    built, batch, guide = small_model("transformer"), batch_of(5, 2, 3), GuidedHead(0, 1, 0.1)
    assert batch.links is not None
    seen = built(batch.source, batch.target[:, :-1], PassOptions((0,))).weights
    assert seen is not None
    with_cuts = batch._replace(cuts=draw_cuts(batch, 0.9, seed=1, epoch=0))
    loss = batch_loss(built, with_cuts, SMOOTHING, guide, ALPHA)
    assert loss.align is not None
    assert_equal(loss.align, align_loss(seen[0, :, 1], batch.links))


@two_passes
@pytest.mark.parametrize("model", ["transformer", "rnn", "rnn_luong"])
def test_gradients_reach_every_parameter_of_every_model(name: str, model: str) -> None:
    built, batch = build_model(model_config(model), 13, TARGET_SIZE).train(), batch_of(5, 2)
    if name == "simcut":
        batch = batch._replace(cuts=draw_cuts(batch, 0.3, seed=1, epoch=0))
    batch_loss(built, batch, SMOOTHING, alpha=ALPHA).smoothed.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())

"""R-Drop and SimCut, losses that compare two passes: values and gradients, cuts, and runs."""

import math
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
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
from helpers.small_corpora import corpus_in_memory
from helpers.tiny_runs import (
    metrics,
    tiny_overrides,
    train_again,
    train_command,
    train_tiny,
    weights,
)
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import Batch, draw_cuts, make_batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.corpus.piece_links import BatchLinks
from seq2seq.models import Seq2Seq, build_model
from seq2seq.training.guided import GuidedHead, align_loss
from seq2seq.training.loss import batch_loss, cross_entropy, r_drop, simcut

R, E, V = 7, 5, 13  # tokens, width of a state, words
LOSSES: dict[str, Callable[..., Any]] = {"r_drop": r_drop, "simcut": simcut}
ALPHA, SMOOTHING = 5.0, 0.1

both = pytest.mark.parametrize("name", LOSSES)
every_model = pytest.mark.parametrize("model", ["transformer", "rnn", "rnn_luong"])


def reference(
    name: str, hidden: Tensor, output: nn.Linear, target: Tensor, alpha: float, smoothing: float
) -> Tensor:
    """The loss from the scores of the whole batch at once, by torch's own functions.

    R-Drop is half of the paper's: -log p - log q + alpha / 2 (KL(p || q) + KL(q || p)); SimCut is
    -log p + alpha KL(p || q).
    """
    p, q = output(hidden).log_softmax(-1).chunk(2)
    one, other = (
        F.cross_entropy(x, target, reduction="sum", label_smoothing=smoothing) for x in (p, q)
    )
    divergence = F.kl_div(q, p, reduction="sum", log_target=True)
    if name == "simcut":
        return one + alpha * divergence
    divergence = divergence + F.kl_div(p, q, reduction="sum", log_target=True)
    return (one + other + alpha / 2 * divergence) / 2


def problem(
    tokens: int = R, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, nn.Linear, Tensor]:
    """Two hidden states of each token, an output layer and target ids, some of them twice."""
    hidden = torch.randn(2 * tokens, E, dtype=dtype, requires_grad=True)
    output = nn.Linear(E, V, dtype=dtype)
    return hidden, output, torch.randint(V // 2, (tokens,))


@both
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("chunk", [1, 3, 7, 128])
def test_the_loss_and_its_gradients_are_those_of_torch(
    name: str, chunk: int, alpha: float, smoothing: float
) -> None:
    hidden, output, target = problem()
    options = {"alpha": alpha, "smoothing": smoothing, "chunk": chunk}
    loss, nll, _ = LOSSES[name](hidden, output, target, **options)
    expected = reference(name, hidden, output, target, alpha, smoothing)
    assert_equal(loss, expected)
    assert_equal(nll, reference(name, hidden, output, target, 0.0, 0.0).detach())
    inputs = hidden, output.weight, output.bias
    # A factor, as that of gradient accumulation, reaches the gradients.
    assert_equal(gradients(3 * loss, *inputs), gradients(3 * expected, *inputs))


# The probabilities 1/4 and 3/4 of one pass, 1/2 and 1/2 of the other.
ONE_WAY = math.log(1 / 2) / 4 + 3 / 4 * math.log(3 / 2)
BOTH_WAYS = math.log(3) / 4  # the sum of (p - q) (log p - log q)
BY_HAND = {
    "r_drop": ((math.log(4) + math.log(2)) / 2, 8 / 4 * BOTH_WAYS),
    "simcut": (math.log(4), 8 * ONE_WAY),
}


@both
def test_the_loss_is_that_of_pencil_and_paper(name: str) -> None:
    output = nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():  # a state h has the scores 0 and h
        output.weight.copy_(torch.tensor([[0.0], [1.0]]))
        output.bias.zero_()
    hidden = torch.tensor([[math.log(3)], [0.0]], dtype=torch.float64, requires_grad=True)
    loss, nll, _ = LOSSES[name](hidden, output, torch.tensor([0]), alpha=8.0)
    likelihood, divergence = BY_HAND[name]
    assert nll.item() == pytest.approx(likelihood)
    assert loss.item() == pytest.approx(likelihood + divergence)
    if name == "simcut":  # p - t + alpha p (d - KL) at the second word, and alpha (q - p)
        (slope,) = gradients(loss, hidden)
        untouched = 3 / 4 + 8 * 3 / 4 * (math.log(3 / 2) - ONE_WAY)
        assert slope.flatten().tolist() == pytest.approx([untouched, 8 * (1 / 2 - 3 / 4)])


@both
def test_finite_differences_agree(name: str) -> None:
    hidden, output, target = problem(3)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Any:
        layer: Any = SimpleNamespace(weight=weight, bias=bias)
        return LOSSES[name](hidden, layer, target, alpha=ALPHA, smoothing=0.1, chunk=2).smoothed

    weight, bias = (p.detach().clone().requires_grad_() for p in output.parameters())
    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


@both
def test_two_passes_that_agree_cost_what_one_does_whatever_alpha_is(name: str) -> None:
    hidden, output, target = problem()
    inputs = hidden, output.weight, output.bias
    once = hidden[:R]
    plain = cross_entropy(once, output, target, smoothing=SMOOTHING)
    twice = once.repeat(2, 1)
    loss, nll, _ = LOSSES[name](twice, output, target, alpha=50.0, smoothing=SMOOTHING)
    assert_equal(loss, plain.smoothed)
    assert_equal(nll, plain.nll)
    assert_equal(gradients(loss, *inputs), gradients(plain.smoothed, *inputs))


def test_which_of_two_dropouts_comes_first_changes_nothing() -> None:
    hidden, output, target = problem()
    swapped = hidden.roll(R, dims=0)
    one, other = (r_drop(h, output, target, alpha=ALPHA).smoothed for h in (hidden, swapped))
    assert_equal(one, other)
    assert_equal(gradients(one, hidden), gradients(other, hidden))


@both
def test_no_tokens_cost_nothing(name: str) -> None:
    hidden, output, target = problem(0)
    loss, nll, _ = LOSSES[name](hidden, output, target, alpha=ALPHA, smoothing=SMOOTHING)
    assert loss.item() == nll.item() == 0
    loss.backward()
    assert hidden.grad is not None and hidden.grad.shape == (0, E)
    assert output.weight.grad is not None and not output.weight.grad.any()


@both
def test_pieces_of_a_batch_add_up(name: str) -> None:
    hidden, output, target = problem()
    inputs = hidden, output.weight, output.bias
    whole = gradients(LOSSES[name](hidden, output, target, alpha=ALPHA).smoothed, *inputs)
    one, other = hidden.chunk(2)
    total = torch.zeros((), dtype=torch.float64)
    for pieces in (slice(0, 2), slice(2, 2), slice(2, 7)):
        pair = torch.cat((one[pieces], other[pieces]))
        total = total + LOSSES[name](pair, output, target[pieces], alpha=ALPHA).smoothed
    assert_equal(gradients(total, *inputs), whole)


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


@both
def test_the_scores_of_the_batch_are_never_held(name: str) -> None:
    hidden, output, target = problem(100)
    with Largest() as largest:
        LOSSES[name](hidden, output, target, alpha=ALPHA, chunk=10).smoothed.backward()
    assert largest.size == 2 * 100 * E > 2 * 10 * V  # the states; scores of a chunk


@both
def test_scores_of_any_size_do_not_overflow(name: str) -> None:
    hidden, output, target = problem(dtype=torch.float32)
    with torch.no_grad():
        output.weight.mul_(1e4)
    loss = LOSSES[name](hidden, output, target, alpha=ALPHA, smoothing=SMOOTHING).smoothed
    assert loss.isfinite()
    assert all(slope.isfinite().all() for slope in gradients(loss, hidden, output.weight))


@both
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_mixed_precision_is_near_and_sums_in_float32(name: str, kind: torch.dtype) -> None:
    hidden, output, target = problem(350, torch.float32)
    expected = reference(name, hidden, output, target, ALPHA, SMOOTHING)
    inputs = hidden, output.weight, output.bias
    slopes = gradients(expected, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        states = hidden.to(kind)
        loss = LOSSES[name](states, output, target, alpha=ALPHA, smoothing=SMOOTHING).smoothed
    assert loss.dtype is torch.float32
    assert_equal(loss, expected, 1e-2)
    for mine, other in zip(gradients(loss, *inputs), slopes, strict=True):
        assert mine.dtype is torch.float32
        assert (mine - other).norm() < 0.02 * other.norm()


def batch_of(*lengths: int) -> Batch:
    """Sentences with targets of these lengths, each with a link between the first pieces."""
    target = torch.full((len(lengths), max(lengths) + 2), PAD)
    for row, length in zip(target, lengths, strict=True):
        row[0], row[1 : length + 1], row[length + 1] = BOS, torch.randint(4, TARGET_SIZE, ()), EOS
    rows, tokens = torch.arange(len(lengths)), sum(lengths) + len(lengths)
    first = torch.zeros_like(rows)
    links = BatchLinks(torch.stack((rows, first, first)), torch.ones(len(rows)), len(rows), 9)
    return Batch(source_batch(*lengths), target, tokens, 99, list(range(len(lengths))), links)


def test_r_drop_of_a_batch_is_that_of_two_passes_of_the_model_in_training() -> None:
    model = small_model("transformer", "model.dropout=0.3").train()
    batch, guide = batch_of(5, 2, 3), GuidedHead(0, 1, 0.1)
    labels = batch.target[:, 1:]
    real = labels != PAD
    torch.manual_seed(1)
    loss = batch_loss(model, batch, SMOOTHING, guide, ALPHA)
    torch.manual_seed(1)
    twice = (side.repeat(2, 1) for side in (batch.source, batch.target[:, :-1]))
    hidden, seen = model(*twice, (0,))
    one, other = hidden.chunk(2)
    assert not torch.equal(one, other)
    states, output = torch.cat((one[real], other[real])), model.embeddings.output
    expected = reference("r_drop", states, output, labels[real], ALPHA, SMOOTHING)
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
    expected = reference("simcut", states, output, labels[real], ALPHA, SMOOTHING)
    loss = batch_loss(built, batch, SMOOTHING, alpha=ALPHA)
    assert_equal(loss.smoothed, expected)
    parameters = list(built.parameters())
    assert_equal(gradients(loss.smoothed, *parameters), gradients(expected, *parameters))


def test_a_guided_head_learns_from_the_untouched_pass() -> None:
    built, batch, guide = small_model("transformer"), batch_of(5, 2, 3), GuidedHead(0, 1, 0.1)
    assert batch.links is not None
    seen = built(batch.source, batch.target[:, :-1], (0,)).weights
    assert seen is not None
    with_cuts = batch._replace(cuts=draw_cuts(batch, 0.9, seed=1, epoch=0))
    loss = batch_loss(built, with_cuts, SMOOTHING, guide, ALPHA)
    assert loss.align is not None
    assert_equal(loss.align, align_loss(seen[0, :, 1], batch.links))


@both
@every_model
def test_gradients_reach_every_parameter_of_every_model(name: str, model: str) -> None:
    built, batch = build_model(model_config(model), 13, TARGET_SIZE).train(), batch_of(5, 2)
    if name == "simcut":
        batch = batch._replace(cuts=draw_cuts(batch, 0.3, seed=1, epoch=0))
    batch_loss(built, batch, SMOOTHING, alpha=ALPHA).smoothed.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())


@pytest.fixture
def corpus_of_lengths() -> Corpus:
    lengths = np.arange(200) % 40 + 3
    return corpus_in_memory(lengths, lengths[::-1])


def test_cuts_have_their_probability_and_spare_begin_end_and_padding(
    corpus_of_lengths: Corpus,
) -> None:
    batch = make_batch(corpus_of_lengths, range(200), total=1)
    cuts = draw_cuts(batch, 0.2, seed=7, epoch=3)
    for ids, cut in zip((batch.source, batch.target[:, :-1]), cuts, strict=True):
        assert ids.shape == cut.shape
        assert not cut[ids <= EOS].any()
        assert cut[ids > EOS].float().mean().item() == pytest.approx(0.2, abs=0.02)
    source, target = (cut[:, :20] for cut in cuts)
    assert not torch.equal(source, target)


def test_cuts_are_a_pure_function_of_seed_epoch_and_row(corpus_of_lengths: Corpus) -> None:
    rows = [17, 4, 30]
    batch = make_batch(corpus_of_lengths, rows, total=1)
    together = draw_cuts(batch, 0.5, seed=7, epoch=3)
    for i, row in enumerate(rows):
        single = make_batch(corpus_of_lengths, [row], total=1)
        for one, all_rows in zip(draw_cuts(single, 0.5, seed=7, epoch=3), together, strict=True):
            assert torch.equal(one[0], all_rows[i, : one.shape[1]])
            assert not all_rows[i, one.shape[1] :].any()
    for other in ((8, 3), (7, 4)):
        changed = draw_cuts(batch, 0.5, *other)
        assert not torch.equal(torch.cat(changed, 1), torch.cat(together, 1))


def test_ranks_and_accumulation_steps_cut_the_same_inputs(corpus_of_lengths: Corpus) -> None:
    def cuts(rank: int, world: int, steps: int) -> dict[int, list[bool]]:
        loader = BatchLoader(
            corpus_of_lengths, max_tokens=512, seed=3, rank=rank, world=world, steps=steps, cut=0.4
        )
        drawn = {}
        for batch in loader:
            assert batch.cuts is not None
            ends = (batch.source == EOS).int().argmax(1).tolist()
            for row, end, cut in zip(batch.indices, ends, batch.cuts[0], strict=False):
                drawn[row] = cut[:end].tolist()
        return drawn

    assert cuts(0, 2, 2) | cuts(1, 2, 2) == cuts(0, 1, 1)


SIMCUT = ("loss.simcut=3", "loss.simcut_p=0.2", "model.dropout=0.2", "data.max_tokens=1024")
R_DROP = ("loss.r_drop=5", "model.dropout=0.2", "data.max_tokens=1024")


@pytest.mark.parametrize(
    ("options", "updates"),
    [
        (SIMCUT, 20),  # more than an epoch: the cuts of the next one differ
        pytest.param(R_DROP, 4, marks=pytest.mark.slow),
    ],
    ids=["simcut", "r_drop"],
)
def test_a_run_is_resumed_exactly_and_logs_the_likelihood_alone(
    options: tuple[str, ...], updates: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp()
    options = (*options, f"schedule.steps={updates}")
    whole = train_tiny(base, *options, f"trainer.max_steps={updates}")
    first = train_tiny(base, *options, f"trainer.max_steps={updates // 2}")
    resume = f"resume={first / 'last.ckpt'}"
    resumed = train_tiny(base, *options, f"trainer.max_steps={updates}", resume)
    expected = weights(whole)
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed).items())
    # Untrained, every one of 400 pieces is about as likely as another.
    assert metrics(whole, "train/loss")[0] == pytest.approx(math.log(400), rel=0.15)


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_end(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    base, killed = tmp_path_factory.getbasetemp(), tmp_path / "killed"
    options = (*SIMCUT, "checkpoint.every=3", "schedule.steps=40", "trainer.val_check_interval=100")
    endless = ("trainer.max_steps=-1", "trainer.max_epochs=1000")
    with subprocess.Popen(
        train_command(base, killed, *options, *endless), stdout=subprocess.DEVNULL
    ) as process:
        end = time.monotonic() + 120
        while not (killed / "last.ckpt").is_file() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    step = torch.load(killed / "last.ckpt", weights_only=True)["global_step"]
    ends = []
    for name, resume in (("whole", ()), ("resumed", (f"resume={killed / 'last.ckpt'}",))):
        command = train_command(
            base, tmp_path / name, *options, f"trainer.max_steps={step + 4}", *resume
        )
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        ends.append(weights(tmp_path / name))
    whole, resumed = ends
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_another_alpha_or_probability_is_another_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.getbasetemp()
    run = train_tiny(base, *SIMCUT, "trainer.max_steps=1")
    for change, complaint in (
        ("loss.simcut=4", "loss.simcut was 3 and is 4 now"),
        ("loss.simcut_p=0.1", "loss.simcut_p was 0.2 and is 0.1 now"),
    ):
        with pytest.raises(Exception, match=complaint.replace(".", r"\.")):
            train_again(run, *tiny_overrides(base), *SIMCUT, change, f"resume={run / 'last.ckpt'}")


@both
def test_a_dry_run_tries_the_loss(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_tiny(tmp_path, f"loss.{name}=3", "dry_run=true")
    assert "memory" in capsys.readouterr().out

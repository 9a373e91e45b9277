"""SimCut: its loss and gradients against sums by hand in float64, its cuts, and its runs."""

import math
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.builders import TARGET_SIZE, assert_equal, gradients, model_config, small_model
from helpers.consistency import E, Largest, R, V, batch_of, problem
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

from seq2seq.base.symbols import EOS, PAD
from seq2seq.data.batches.batch import draw_cuts, make_batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.models import PassOptions, Seq2Seq, build_model
from seq2seq.training.guided import GuidedHead, align_loss
from seq2seq.training.loss import batch_loss, cross_entropy, simcut

ALPHA, SMOOTHING = 3.0, 0.1


def by_hand(
    scores: Tensor, cut_scores: Tensor, target: Tensor, alpha: float, smoothing: float
) -> Tensor:
    """The sum over tokens of CE(p) + alpha sum_v p_v (log p_v - log q_v), a word at a time."""
    total = scores.new_zeros(())
    for z, z_cut, right in zip(scores, cut_scores, target.tolist(), strict=True):
        p, q = z.exp() / z.exp().sum(), z_cut.exp() / z_cut.exp().sum()
        for word in range(len(z)):
            wanted = smoothing / len(z) + (1 - smoothing) * (word == right)
            total = total - wanted * p[word].log()
            total = total + alpha * p[word] * (p[word].log() - q[word].log())
    return total


def near(one: Any, other: Any) -> None:
    for mine, his in zip(one, other, strict=True):
        torch.testing.assert_close(mine, his, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("chunk", [1, 3, 7, 128])
def test_the_loss_and_its_gradients_are_those_of_sums_by_hand(
    chunk: int, alpha: float, smoothing: float
) -> None:
    hidden, output, target = problem()
    loss, nll, _ = simcut(hidden, output, target, alpha=alpha, smoothing=smoothing, chunk=chunk)
    scores, cut_scores = output(hidden).chunk(2)
    expected = by_hand(scores, cut_scores, target, alpha, smoothing)
    near([loss, nll], [expected, by_hand(scores, cut_scores, target, 0.0, 0.0).detach()])
    inputs = hidden, output.weight, output.bias
    # A factor, as that of gradient accumulation, reaches the gradients.
    near(gradients(3 * loss, *inputs), gradients(3 * expected, *inputs))


def test_the_divergence_has_one_direction_and_a_gradient_through_both_passes() -> None:
    output = nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():  # a state h has the scores 0 and h
        output.weight.copy_(torch.tensor([[0.0], [1.0]]))
        output.bias.zero_()
    # Probabilities 1/4 and 3/4 untouched, 1/2 and 1/2 cut: KL = 1/4 log 1/2 + 3/4 log 3/2.
    hidden = torch.tensor([[math.log(3)], [0.0]], dtype=torch.float64, requires_grad=True)
    loss, nll, _ = simcut(hidden, output, torch.tensor([0]), alpha=8.0)
    assert nll.item() == pytest.approx(math.log(4))
    divergence = math.log(1 / 2) / 4 + 3 / 4 * math.log(3 / 2)
    assert loss.item() == pytest.approx(math.log(4) + 8 * divergence)
    # Of the untouched scores p - t + alpha p (d - KL) at the second word, of the cut alpha (q - p).
    (slope,) = gradients(loss, hidden)
    untouched = 3 / 4 + 8 * 3 / 4 * (math.log(3 / 2) - divergence)
    near([slope.flatten()], [torch.tensor([untouched, 8 * (1 / 2 - 3 / 4)], dtype=torch.float64)])


def test_a_cut_that_changes_nothing_costs_nothing() -> None:
    hidden, output, target = problem()
    once = hidden[:R]
    plain = cross_entropy(once, output, target, smoothing=SMOOTHING)
    loss, nll, _ = simcut(once.repeat(2, 1), output, target, alpha=50.0, smoothing=SMOOTHING)
    near([loss, nll], [plain.smoothed, plain.nll])


def test_the_scores_of_the_batch_are_never_held() -> None:
    hidden, output, target = problem(100)
    with Largest() as largest:
        simcut(hidden, output, target, alpha=3.0, smoothing=0.1, chunk=10).smoothed.backward()
    assert largest.size == 2 * 100 * E  # the states; chunks of scores have 2 * 10 * V
    assert 2 * 10 * V < 2 * 100 * E


def test_scores_of_any_size_do_not_overflow_and_no_tokens_cost_nothing() -> None:
    hidden, output, target = problem(dtype=torch.float32)
    with torch.no_grad():
        output.weight.mul_(1e4)
    loss = simcut(hidden, output, target, alpha=3.0, smoothing=0.1).smoothed
    assert loss.isfinite()
    assert all(slope.isfinite().all() for slope in gradients(loss, hidden, output.weight))
    hidden, output, target = problem(0)
    assert simcut(hidden, output, target, alpha=3.0).smoothed.item() == 0


def test_mixed_precision_is_near_and_sums_in_float32() -> None:
    hidden, output, target = problem(350, torch.float32)
    scores, cut_scores = output(hidden).chunk(2)
    inputs = hidden, output.weight, output.bias
    expected = by_hand(scores, cut_scores, target, ALPHA, SMOOTHING)
    slopes = gradients(expected, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = simcut(hidden, output, target, alpha=ALPHA, smoothing=SMOOTHING).smoothed
    assert loss.dtype is torch.float32
    assert_equal(loss, expected, 1e-2)
    for mine, his in zip(gradients(loss, *inputs), slopes, strict=True):
        assert (mine - his).norm() < 0.02 * his.norm()


def zeroed(cut: Tensor) -> Any:
    """A hook that zeroes the embeddings of one pass, and shows their scale to nobody."""
    return lambda module, given, embedded: embedded * ~cut[..., None]


def scores_of(model: Seq2Seq, source: Tensor, given: Tensor, cuts: Any) -> Tensor:
    """The scores of a pass whose embeddings are zeroed from outside."""
    sides = zip((model.embeddings.source, model.embeddings.target), cuts, strict=True)
    hooks = [matrix.register_forward_hook(zeroed(cut)) for matrix, cut in sides]
    try:
        return model.logits(model(source, given).hidden)
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize(
    "model", ["transformer", "transformer position=rope", "rnn", "rnn_luong model.cell=lstm"]
)
def test_the_loss_of_a_batch_is_that_of_two_separate_passes(model: str) -> None:
    name, *options = model.split()
    built = small_model(name, *options)
    batch = batch_of(5, 2, 3)
    cuts = draw_cuts(batch, 0.5, seed=2, epoch=0)
    assert all(cut.any() for cut in cuts)
    batch = batch._replace(cuts=cuts, links=None)
    labels = batch.target[:, 1:]
    real, given = labels != PAD, batch.target[:, :-1]
    untouched = built.logits(built(batch.source, given).hidden)[real]
    cut = scores_of(built, batch.source, given, cuts)[real]
    expected = by_hand(untouched, cut, labels[real], ALPHA, SMOOTHING)
    loss = batch_loss(built, batch, SMOOTHING, alpha=ALPHA)
    near([loss.smoothed], [expected])
    parameters = list(built.parameters())
    near(gradients(loss.smoothed, *parameters), gradients(expected, *parameters))


def test_a_guided_head_learns_from_the_untouched_pass() -> None:
    built, batch, guide = small_model("transformer"), batch_of(5, 2, 3), GuidedHead(0, 1, 0.1)
    assert batch.links is not None
    seen = built(batch.source, batch.target[:, :-1], PassOptions((0,))).weights
    assert seen is not None
    with_cuts = batch._replace(cuts=draw_cuts(batch, 0.9, seed=1, epoch=0))
    loss = batch_loss(built, with_cuts, SMOOTHING, guide, ALPHA)
    assert loss.align is not None
    near([loss.align], [align_loss(seen[0, :, 1], batch.links)])


@pytest.mark.parametrize("model", ["transformer", "rnn", "rnn_luong"])
def test_gradients_reach_every_parameter_of_every_model(model: str) -> None:
    built = build_model(model_config(model), 13, TARGET_SIZE).train()
    batch = batch_of(5, 2)
    batch = batch._replace(cuts=draw_cuts(batch, 0.3, seed=1, epoch=0))
    batch_loss(built, batch, SMOOTHING, alpha=ALPHA).smoothed.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())


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


@pytest.fixture
def corpus_of_lengths() -> Corpus:

    lengths = np.arange(200) % 40 + 3
    return corpus_in_memory(lengths, lengths[::-1])


RUN = ("loss.simcut=3", "loss.simcut_p=0.2", "model.dropout=0.2", "data.max_tokens=1024")


def test_a_run_is_resumed_exactly_and_logs_the_likelihood_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.getbasetemp()
    # More than an epoch: the cuts of the next one differ.
    options = (*RUN, "schedule.steps=20")
    whole = train_tiny(base, *options, "trainer.max_steps=20")
    first = train_tiny(base, *options, "trainer.max_steps=10")
    resumed = train_tiny(base, *options, "trainer.max_steps=20", f"resume={first / 'last.ckpt'}")
    expected = weights(whole)
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed).items())
    # Untrained, every one of 400 pieces is about as likely as another.
    assert metrics(whole, "train/loss")[0] == pytest.approx(math.log(400), rel=0.15)


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_end(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    base, killed = tmp_path_factory.getbasetemp(), tmp_path / "killed"
    options = (*RUN, "checkpoint.every=3", "schedule.steps=40", "trainer.val_check_interval=100")
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
    run = train_tiny(base, *RUN, "trainer.max_steps=1")
    for change, complaint in (
        ("loss.simcut=4", "loss.simcut was 3 and is 4 now"),
        ("loss.simcut_p=0.1", "loss.simcut_p was 0.2 and is 0.1 now"),
    ):
        with pytest.raises(Exception, match=complaint.replace(".", r"\.")):
            train_again(run, *tiny_overrides(base), *RUN, change, f"resume={run / 'last.ckpt'}")


def test_a_dry_run_tries_simcut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tiny(tmp_path, "loss.simcut=3", "dry_run=true")
    assert "memory" in capsys.readouterr().out

"""An update over packed tokens is the update over padded ones, and always the same operations."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.dispatch import NoWait, Trace
from helpers.tiny_runs import plan_of, prepared_for, tiny_overrides
from torch.optim.lr_scheduler import LambdaLR

from seq2seq.data.batches.batch import Batch
from seq2seq.models import Seq2Seq, build_model
from seq2seq.training.config.plan import Plan
from seq2seq.training.loaders import train_loader
from seq2seq.training.loss import batch_loss
from seq2seq.training.optimizer import build_optimizer, clip_gradients
from seq2seq.training.packed import PackedUpdate

SMALL = ("data.max_tokens=256", "trainer.packed=true")


class Setting:
    """A model in float64, and what trains it on the tiny corpus."""

    def __init__(self, base: Path, *overrides: str):
        self.plan: Plan = plan_of(base, *tiny_overrides(base), *SMALL, *overrides)
        prepared = prepared_for(self.plan)
        self.loader = train_loader(self.plan, prepared)
        torch.manual_seed(1)
        sizes = (tokenizer.size for tokenizer in prepared.tokenizers)
        self.model: Seq2Seq = build_model(self.plan.model, *sizes).double().train()
        self.optimizer = build_optimizer(self.model, self.plan.optimizer, fused=True)
        self.schedule = LambdaLR(self.optimizer, self.plan.schedule)
        self.steps = self.plan.trainer.accumulate_grad_batches

    def batches(self, updates: int) -> Iterator[tuple[Batch, bool]]:
        """Micro-batches, and whether each ends an update."""
        for index, batch in enumerate(islice(self.loader, updates * self.steps)):
            yield batch, (index + 1) % self.steps == 0

    def update(self) -> PackedUpdate:
        return PackedUpdate(self.model, self.optimizer, self.plan)

    def train_packed(self, updates: int) -> list[float]:
        update, losses = self.update(), []
        for batch, ends in self.batches(updates):
            losses.append(float(update(batch, ends)[1]) / batch.total)
            if ends:
                self.schedule.step()
        return losses

    def train_padded(self, updates: int) -> list[float]:
        losses = []
        for batch, ends in self.batches(updates):
            loss = batch_loss(self.model, batch, self.plan.loss.label_smoothing)
            (loss.smoothed / batch.total).backward()
            losses.append(float(loss.nll) / batch.total)
            if ends:
                clip_gradients(self.model.parameters(), self.plan.trainer.gradient_clip_val)
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.schedule.step()
        return losses


@pytest.mark.parametrize(
    "overrides",
    [
        ("trainer.accumulate_grad_batches=3", "attn=gqa", "position=rope"),
        pytest.param(
            ("optimizer=adamw", "attn=dot", "model.norm_order=post", "model.zero_start=true"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["accumulated", "groups of rates"],
)
def test_thirty_updates_learn_the_same(base: Path, overrides: tuple[str, ...]) -> None:
    typed = ("model.dropout=0", *overrides)
    packed, padded = (Setting(base, *typed) for _ in range(2))
    expected = padded.train_padded(30)
    assert packed.train_packed(30) == pytest.approx(expected, rel=1e-6)
    assert expected[-1] < 0.9 * expected[0]
    torch.testing.assert_close(
        packed.model.state_dict(), padded.model.state_dict(), atol=1e-6, rtol=1e-6
    )
    groups = padded.optimizer.state_dict()["param_groups"]
    assert packed.optimizer.state_dict()["param_groups"] == groups  # rates are numbers


def noted_by(update: PackedUpdate, ends: bool) -> list[str]:
    """What `compute` does, in order."""
    with NoWait(), Trace() as trace:
        PackedUpdate.compute(update, ends)
    return trace.calls


@pytest.mark.parametrize("attention", ["mha", "gqa"])
def test_every_update_is_the_same_operations(
    base: Path, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the same tensors, whatever the batch and the rate: so a graph of one is valid for all."""
    typed = ("trainer.accumulate_grad_batches=2", "position=rope", "model.word_dropout=0.1")
    setting = Setting(base, *typed, f"attn={attention}")
    update, traces = setting.update(), list[list[str]]()
    monkeypatch.setattr(update, "compute", lambda ends: traces.append(noted_by(update, ends)))
    for batch, ends in setting.batches(8):
        update(batch, ends)
        if ends:
            setting.schedule.step()
    assert len(traces) == 16
    for kind in range(2):  # micro-batches that do not end an update, and those that do
        second = traces[2 + kind]
        assert len(second) > 100
        for later in traces[4 + kind :: 2]:
            assert later == second


def test_a_trace_tells_what_a_graph_could_not_repeat() -> None:
    def noted(run: Any) -> list[str]:
        with Trace() as trace:
            run()
        return trace.calls

    x, y = torch.ones(3), torch.ones(3)
    kept = noted(lambda: x.mul(2).add_(x))
    assert kept == noted(lambda: x.mul(2).add_(x))
    assert kept != noted(lambda: x.mul(3).add_(x))  # another number
    assert kept != noted(lambda: x.mul(2).add_(y))  # another tensor
    assert kept != noted(lambda: x[:2].mul(2).add_(x[:2]))  # another size
    assert kept != noted(lambda: x.double().mul(2).add_(x))  # another type

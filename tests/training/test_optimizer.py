"""Which parameters learn at which rate, and learning-rate schedules by what they promise."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.builders import model_config, presets, small_model, source_batch
from helpers.tiny_runs import plan_of

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS
from seq2seq.models import Seq2Seq, build_model
from seq2seq.training.config.options import OptimizerOptions
from seq2seq.training.optimizer import (
    SCHEDULES,
    build_optimizer,
    build_schedule,
    learning_rate_groups,
)

ADAM = OptimizerOptions("adam", lr=0.01, betas=(0.9, 0.98), eps=1e-12, weight_decay=0.0)


@pytest.mark.parametrize("attn", ["mha", "dot", "general", "performer"])
def test_every_parameter_is_in_one_group(attn: str) -> None:
    model = small_model("transformer", f"attn={attn}")
    groups = learning_rate_groups(model, 1.0)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    assert len(groups) == (1 if attn == "mha" else 2)


def trained(attn: str, scale: float) -> tuple[Seq2Seq, torch.Tensor]:
    """A model after five updates, whose projections of queries and keys are drawn at a scale."""
    torch.manual_seed(0)
    model = build_model(model_config("transformer", f"attn={attn}"), 13, 11).double().eval()
    reference = build_model(model_config("transformer", "attn=scaled_dot"), 13, 11)
    weights = {name: p.double() for name, p in reference.state_dict().items()}
    for name in weights:
        if name.endswith((".q.weight", ".k.weight")):
            weights[name] = weights[name] * scale
    model.load_state_dict(weights, strict=False)
    optimizer = build_optimizer(model, ADAM, fused=False)
    source, target = source_batch(7, 5), torch.tensor([[BOS, 4, 5], [BOS, 6, 7]])
    for _ in range(5):
        optimizer.zero_grad()
        hidden = model(source, target).hidden
        (hidden - 1).square().sum().backward()
        optimizer.step()
    return model, model(source, target).hidden


def test_an_unscaled_dot_product_learns_as_the_scaled_one_does() -> None:
    width = 8  # of each of four heads
    dot, answer = trained("dot", width**-0.25)
    scaled, expected = trained("scaled_dot", 1.0)
    # Adam's eps tells gradients of different sizes apart a little; the learning rate is 0.01.
    torch.testing.assert_close(answer, expected, atol=2e-4, rtol=0)
    pairs = zip(dot.named_parameters(), scaled.parameters(), strict=True)
    for (name, one), other in pairs:
        size = width**-0.25 if name.endswith((".q.weight", ".k.weight")) else 1.0
        torch.testing.assert_close(one, size * other, atol=2e-4, rtol=0)


WARMUP, STEPS = 100, 1000
OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {},
    "cosine": {"steps": STEPS},
    "inverse_sqrt": {},
}

every_schedule = pytest.mark.parametrize("name", SCHEDULES)


def factors(name: str, warmup: int = WARMUP, **options: Any) -> list[float]:
    """The factor of each of the first 1100 updates; the first is update 1."""
    schedule = build_schedule({"name": name, "warmup": warmup, **OPTIONS[name], **options})
    return [math.nan, *(schedule(step) for step in range(1100))]


@every_schedule
def test_the_rate_rises_in_equal_steps_to_its_peak(name: str) -> None:
    rates = factors(name)
    for update in range(1, WARMUP):
        assert rates[update] == pytest.approx(update / WARMUP)
    assert rates[WARMUP] == pytest.approx(1.0)
    assert max(rates[1:]) <= 1.0


@every_schedule
def test_the_rate_never_rises_after_its_peak_and_never_jumps(name: str) -> None:
    rates = factors(name)[WARMUP:]
    for before, after in pairwise(rates):
        assert before - 0.01 < after <= before
        assert after >= 0


@every_schedule
def test_without_warm_up_the_first_update_has_the_peak(name: str) -> None:
    for warmup in (0, 1):
        assert factors(name, warmup)[1] == pytest.approx(1.0, abs=1e-4)


def test_inverse_sqrt_is_half_the_peak_after_four_times_the_warm_up() -> None:
    rates = factors("inverse_sqrt")
    assert rates[4 * WARMUP] == pytest.approx(1 / 2)
    assert rates[9 * WARMUP] == pytest.approx(1 / 3)


def test_a_cosine_is_half_at_its_middle_and_nothing_after_its_last_update() -> None:
    rates = factors("cosine", steps=STEPS - 1)  # STEPS is the update after the last
    assert rates[(WARMUP + STEPS) // 2] == pytest.approx(1 / 2)
    assert rates[WARMUP + (STEPS - WARMUP) // 3] == pytest.approx(3 / 4)
    assert rates[STEPS - 1] > 0
    assert rates[STEPS:] == pytest.approx([0.0] * len(rates[STEPS:]))


def test_a_cosine_of_a_command_line_is_that_of_torch_to_its_end() -> None:
    """torch's reaches 0 after its last step, ours one update after the last of the run."""
    updates = 37
    typed = ("run_name=any", "schedule=cosine", "schedule.warmup=0")
    schedule = plan_of(Path(), *typed, f"trainer.max_steps={updates}").schedule
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates + 1)
    for update in range(updates + 1):
        optimizer.step()
        theirs.step()
        assert schedule(update) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
    assert schedule(updates - 1) == pytest.approx(math.sin(math.pi / 2 / (updates + 1)) ** 2)
    assert schedule(updates) == schedule(2 * updates) == 0


def test_a_constant_stays_at_its_peak() -> None:
    assert set(factors("constant")[WARMUP:]) == {1.0}


def test_a_cosine_that_ends_within_its_warm_up_still_makes_every_update() -> None:
    for steps in (1, WARMUP // 2, WARMUP):
        assert all(0 < factor <= 1 for factor in factors("cosine", steps=steps)[1 : steps + 1])


@pytest.mark.parametrize("steps", [-1, 0])
def test_a_cosine_without_an_end_is_refused(steps: int) -> None:
    with pytest.raises(ConfigError, match="a cosine needs an end.*trainer.max_steps=10000"):
        build_schedule({"name": "cosine", "warmup": 10, "steps": steps})


def test_a_schedule_drives_an_optimizer_from_its_first_update() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=2.0)
    schedule = build_schedule({"name": "inverse_sqrt", "warmup": 4})
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0 * (4 / 5) ** 0.5])


def test_every_schedule_has_a_preset() -> None:
    assert presets("schedule") == sorted(SCHEDULES)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown schedule 'cosin'; did you mean 'cosine'"):
        build_schedule({"name": "cosin", "warmup": 10})
    with pytest.raises(ConfigError, match="schedule.warmup is missing: a whole number"):
        build_schedule({"name": "constant"})
    with pytest.raises(ConfigError, match="schedule.warmup=-1 should be at least 0"):
        build_schedule({"name": "constant", "warmup": -1})
    with pytest.raises(ConfigError, match="unknown option schedule.steps"):
        build_schedule({"name": "constant", "warmup": 10, "steps": 100})

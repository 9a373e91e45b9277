"""Learning-rate schedules by what they promise."""

import math
from typing import Any

import pytest
import torch
from helpers import presets

from seq2seq.errors import ConfigError
from seq2seq.training.optimizer import SCHEDULES, build_schedule

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
    found = factors(name)
    for update in range(1, WARMUP):
        assert found[update] == pytest.approx(update / WARMUP)
    assert found[WARMUP] == pytest.approx(1.0)
    assert max(found[1:]) <= 1.0


@every_schedule
def test_the_rate_never_rises_after_its_peak_and_never_jumps(name: str) -> None:
    found = factors(name)[WARMUP:]
    for before, after in zip(found, found[1:], strict=False):
        assert before - 0.01 < after <= before
        assert after >= 0


@every_schedule
def test_without_warm_up_the_first_update_has_the_peak(name: str) -> None:
    for warmup in (0, 1):
        assert factors(name, warmup)[1] == pytest.approx(1.0, abs=1e-4)


def test_inverse_sqrt_is_half_the_peak_after_four_times_the_warm_up() -> None:
    found = factors("inverse_sqrt")
    assert found[4 * WARMUP] == pytest.approx(1 / 2)
    assert found[9 * WARMUP] == pytest.approx(1 / 3)


def test_a_cosine_is_half_at_its_middle_and_nothing_after_its_last_update() -> None:
    found = factors("cosine", steps=STEPS - 1)  # the update after the last has number STEPS
    assert found[(WARMUP + STEPS) // 2] == pytest.approx(1 / 2)
    assert found[WARMUP + (STEPS - WARMUP) // 3] == pytest.approx(3 / 4)
    assert found[STEPS - 1] > 0
    assert found[STEPS:] == pytest.approx([0.0] * len(found[STEPS:]))


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

"""A run that is told to stop loses nothing."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from test_resume import LONG, assert_identical, state_of
from tiny_runs import train_command

STEPS = ("trainer.max_steps=60", "schedule.steps=60", "trainer.val_check_interval=1000")


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


def wait_for_updates(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Until metrics.csv shows that training is under way."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        file = folder / "metrics.csv"
        if file.is_file() and file.read_text(encoding="utf-8").count("\n") > 2:
            return
        time.sleep(0.02)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGTERM, ("trainer.accumulate_grad_batches=2",)),
        (signal.SIGINT, ()),
        (signal.SIGTERM, ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")),
    ],
)
def test_a_signal_ends_a_run_that_then_goes_on_to_the_same_end(
    base: Path, tmp_path: Path, number: signal.Signals, options: tuple[str, ...]
) -> None:
    options = (*LONG, *STEPS, *options)
    endless = ("trainer.max_steps=-1", "trainer.max_epochs=1000", "trainer.log_every_n_steps=1")
    told = tmp_path / "told"
    with subprocess.Popen(
        train_command(base, told, *options, *endless),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_updates(told, process)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name} after step" in err and "Traceback" not in err
    step = torch.load(told / "last.ckpt", weights_only=True)["global_step"]
    assert f"after step {step:,};" in err
    end = f"trainer.max_steps={step + 3}"
    for name, resume in (("whole", ()), ("resumed", (f"resume={told / 'last.ckpt'}",))):
        command = train_command(base, tmp_path / name, *options, end, *resume)
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert_identical(state_of(tmp_path / "resumed"), state_of(tmp_path / "whole"))

"""A run that is told to stop loses nothing; one that diverges ends, and keeps what was good."""

import os
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest
import torch
from helpers.compared_runs import TWENTY, TWO_PROCESSES, assert_identical, state_of
from helpers.tiny_runs import tiny_overrides, train_again, train_command, train_tiny, weights

from seq2seq.training.module import TokenMean, TrainingModule
from seq2seq.training.stopping import DivergedError
from seq2seq.training.trainer import silence_advice, slurm_environment

STEPS = ("trainer.max_steps=60", "schedule.steps=60", "trainer.val_check_interval=1000")


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
    ("signum", "options"),
    [
        (signal.SIGTERM, ("trainer.accumulate_grad_batches=2",)),
        pytest.param(signal.SIGINT, (), marks=pytest.mark.slow),
        pytest.param(
            signal.SIGUSR1,
            TWO_PROCESSES,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            signal.SIGKILL, ("loss.simcut=3", "checkpoint.every=1"), marks=pytest.mark.slow
        ),
    ],
)
def test_a_signal_ends_a_run_that_then_goes_on_to_the_same_end(
    base: Path, tmp_path: Path, signum: signal.Signals, options: tuple[str, ...]
) -> None:
    options = (*TWENTY, *STEPS, *options)
    endless = ("trainer.max_steps=-1", "trainer.max_epochs=1000", "trainer.log_every_n_steps=1")
    told = tmp_path / "told"
    with subprocess.Popen(
        train_command(base, told, *options, *endless),
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # as here: sums are of as many parts
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_updates(told, process)
        process.send_signal(signum)
        _, err = process.communicate(timeout=120)
    step = torch.load(told / "last.ckpt", weights_only=True)["global_step"]
    if signum == signal.SIGKILL:
        assert process.returncode == -signum
    else:
        assert process.returncode == 128 + signum
        assert f"stopped by {signum.name} after step {step:,};" in err and "Traceback" not in err
    end = f"trainer.max_steps={step + 3}"
    for name, resume in (("whole", ()), ("resumed", (f"resume={told / 'last.ckpt'}",))):
        if "trainer=ddp" in options:
            command = train_command(base, tmp_path / name, *options, end, *resume)
            subprocess.run(command, check=True, capture_output=True, timeout=300)
        else:
            train_again(tmp_path / name, *tiny_overrides(base), *options, end, *resume)
    assert_identical(state_of(tmp_path / "resumed"), state_of(tmp_path / "whole"))


@pytest.mark.slow
def test_a_second_signal_ends_a_command_that_hangs(base: Path, tmp_path: Path) -> None:
    mark, run = tmp_path / "mark", tmp_path / "run"
    script = f"echo $$ >> {mark}; test $(wc -l < {mark}) = 1 || sleep 600; echo 1"
    options = (*TWENTY, *STEPS, f"checkpoint.monitor='command:sh -c \"{script}\" # {{sources}}'")
    options += ("trainer.val_check_interval=2", "trainer.max_steps=50")
    with subprocess.Popen(
        train_command(base, run, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until = time.monotonic() + 120
        while not mark.exists() or mark.read_text().count("\n") < 2:  # its trial ended
            assert time.monotonic() < until and process.poll() is None, process.communicate()
            time.sleep(0.05)
        for pause in (1.5, 0):
            process.send_signal(signal.SIGTERM)
            time.sleep(pause)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    command = int(mark.read_text().split()[1])
    with pytest.raises(ProcessLookupError):
        os.kill(command, 0)


@pytest.mark.slow
def test_in_a_job_of_slurm_nothing_but_the_run_is_written_or_read(
    base: Path, tmp_path: Path
) -> None:
    """Lightning would save to the current folder, queue the job again, and load what it finds."""
    here, told = tmp_path / "here", tmp_path / "told"
    here.mkdir()
    (here / "hpc_ckpt_1.ckpt").write_text("of another run")
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "1"}
    slurm |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    options = ("trainer.max_steps=-1", "trainer.max_epochs=1000", "schedule=constant")
    with subprocess.Popen(
        train_command(base, told, *TWENTY[:2], *options),
        cwd=here,
        env={**os.environ, **slurm},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_updates(told, process)
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGUSR1, err
    assert "resume=" in err and (told / "last.ckpt").is_file()
    assert [path.name for path in here.iterdir()] == ["hpc_ckpt_1.ckpt"]


def test_that_slurm_is_on_the_path_is_no_reason_to_warn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        silence_advice()
        assert slurm_environment() == []
    assert said == []


@pytest.mark.filterwarnings("ignore:The `srun` command is available")  # `silence_advice` does that
def test_slurm_does_not_queue_a_job_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    (environment,) = slurm_environment()
    assert not environment.auto_requeue
    monkeypatch.setenv("SLURM_JOB_NAME", "interactive")
    monkeypatch.setenv("PATH", "")  # of an srun on it, Lightning would say that it is not used
    assert slurm_environment() == []
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")  # torchrun in a job of Slurm
    assert slurm_environment() == []


def run_of(error: pytest.ExceptionInfo[DivergedError]) -> Path:
    return Path(str(error.value).rpartition("Saved before: ")[2].split(",")[0]).parent


DIVERGING = ("trainer.max_steps=9", "checkpoint.every=1", "trainer.val_check_interval=2")


@pytest.mark.parametrize("interval", [1, 50])
def test_weights_that_are_not_finite_end_the_run_before_they_are_saved(
    base: Path, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    step = TrainingModule.training_step

    def spoilt(self: TrainingModule, *given: object) -> dict[str, torch.Tensor]:
        output = step(self, *given)  # type: ignore[arg-type]
        nan = float("nan") if self.trainer.global_step == 4 else 1.0
        return {**output, "loss": output["loss"] * nan}

    monkeypatch.setattr(TrainingModule, "training_step", spoilt)
    words = r"diverged: at step 5 weights.*init=.*/best.ckpt.*optimizer.lr than 0.*schedule.warmup"
    with pytest.raises(DivergedError, match=words) as error:
        train_tiny(base, *DIVERGING, f"trainer.log_every_n_steps={interval}")
    folder = run_of(error)
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 4
    for name in ("last.ckpt", "best.ckpt"):
        assert all(value.isfinite().all() for value in weights(folder, name).values())


def test_a_validation_loss_that_is_not_finite_is_never_the_best(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = TokenMean.compute

    def spoilt(self: TokenMean) -> torch.Tensor:
        return compute(self) * float("nan")

    monkeypatch.setattr(TokenMean, "compute", spoilt)
    with pytest.raises(DivergedError, match="the validation loss is NaN or infinite.*Nothing was"):
        train_tiny(base, *DIVERGING, "checkpoint.every=500")

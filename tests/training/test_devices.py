"""What a run learns does not depend on how its batches are shared out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed
from helpers.compared_runs import ON_ANY_DEVICES, TWO_PROCESSES, assert_learnt_the_same
from helpers.tiny_runs import metrics, train_command, train_tiny

from seq2seq.base.errors import ConfigError
from seq2seq.training.config.options import TrainerOptions
from seq2seq.training.sweep import check_processes, leave_process_group


@pytest.fixture(scope="session")
def alone(base: Path) -> Path:
    """Trained by one process that takes each batch in one piece."""
    return train_tiny(base, *ON_ANY_DEVICES)


def test_batches_in_three_pieces_teach_what_whole_ones_do(alone: Path, base: Path) -> None:
    folder = train_tiny(base, *ON_ANY_DEVICES, "trainer.accumulate_grad_batches=3")
    assert_learnt_the_same(folder, alone)


@pytest.mark.slow
def test_two_processes_of_two_pieces_learn_what_one_does(
    alone: Path, base: Path, tmp_path: Path
) -> None:
    options = (*ON_ANY_DEVICES, *TWO_PROCESSES, "trainer.accumulate_grad_batches=2")
    command = train_command(base, tmp_path, *options)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "2 device(s) x 2 micro-batch(es)" in ended.stdout
    assert ended.stderr == ""
    assert_learnt_the_same(tmp_path, alone)


@pytest.mark.slow
def test_torchrun_starts_a_run_in_one_folder(alone: Path, base: Path, tmp_path: Path) -> None:
    _, *command = train_command(base, tmp_path, *ON_ANY_DEVICES, *TWO_PROCESSES)
    command = [o for o in command if not o.startswith("hydra.run.dir")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    named = f"hydra.run.dir={tmp_path}/${{start:}}"
    ended = subprocess.run(
        [*torchrun, "--nproc-per-node=2", *command, named],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = tmp_path.iterdir()
    assert_learnt_the_same(folder, alone)


@pytest.mark.slow
def test_each_job_of_a_sweep_gets_separate_processes_and_a_separate_folder(
    alone: Path, base: Path, tmp_path: Path
) -> None:
    command = train_command(base, tmp_path, *ON_ANY_DEVICES, *TWO_PROCESSES, "seed=1,2", "-m")
    command[-2:] = [f"hydra.sweep.dir={tmp_path}", "-m"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    first, second = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert (first.name, second.name) == ("0-tiny-seed1", "1-tiny-seed2")
    assert_learnt_the_same(first, alone)
    for folder in (first, second):
        best = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        assert best["monitor"] == "bleu" and best["steps"] == 10
        assert best["value"] == pytest.approx(max(metrics(folder, "valid/bleu")))
        assert (best["device"], best["devices"]) == ("cpu", 2) and best["seconds"] > 0
    with pytest.raises(AssertionError):
        assert_learnt_the_same(second, alone)


@pytest.mark.parametrize("devices", [100_000, "100000"])
def test_more_processes_than_cores_are_refused(
    devices: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        ConfigError, match=r"100000 processes on .*: type trainer.devices=\d+, or fewer"
    ):
        check_processes(TrainerOptions(accelerator="cpu", devices=devices))
    for count in (1, 2, "auto"):
        check_processes(TrainerOptions(accelerator="cpu", devices=count))
    monkeypatch.setenv("LOCAL_RANK", "7")  # of those that torchrun has started
    check_processes(TrainerOptions(accelerator="cpu", devices=devices))


def test_a_run_ends_the_threads_that_talk_to_its_other_processes(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    leave_process_group()
    assert not torch.distributed.is_initialized()
    leave_process_group()  # a run of one process has none to leave


def test_the_comparison_would_see_a_lost_sentence(alone: Path, base: Path) -> None:
    """With another division of the loss, here another batch size, the weights are not the same."""
    other = train_tiny(base, *ON_ANY_DEVICES, "data.max_tokens=200")
    with pytest.raises(AssertionError):
        assert_learnt_the_same(other, alone)

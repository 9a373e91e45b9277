"""Checkpoints of a run are written beside their place, and a full disk costs none of them."""

import errno
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import DictConfig
from tiny_runs import tiny_overrides, train_again, train_tiny

from seq2seq import checkpoint
from seq2seq.errors import CheckpointError
from seq2seq.training import fit, launch
from seq2seq.training.saving import Trainer, WholeFiles

STEPS = ("trainer.max_steps=4", "trainer.val_check_interval=2", "checkpoint.every=2")


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


def test_nothing_is_staged_in_the_folder_of_temporary_files(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/no such folder")
    folder = train_tiny(base, *STEPS, "checkpoint.keep_last=1", "checkpoint.keep_best=1")
    assert len(list((folder / "kept").iterdir())) == 2


@pytest.mark.parametrize("name", ["best.ckpt", pytest.param("last.ckpt", marks=pytest.mark.slow)])
def test_a_full_disk_ends_the_run_and_leaves_the_last_good_files(
    base: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = train_tiny(base, *STEPS, "checkpoint.monitor=loss")
    good = {path: path.read_bytes() for path in folder.glob("*.ckpt")}
    fsync = os.fsync

    def fill(opened: int) -> None:
        if f".{name}." in os.readlink(f"/proc/self/fd/{opened}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(opened)

    monkeypatch.setattr(os, "fsync", fill)
    words = f"{name} cannot be written, and is as it was: No space left on device.*last.ckpt goes"
    with pytest.raises(CheckpointError, match=words):
        train_again(
            folder,
            *tiny_overrides(base),
            *STEPS,
            "checkpoint.monitor=loss",
            "trainer.max_steps=8",
            f"resume={folder / 'last.ckpt'}",
        )
    assert (folder / name).read_bytes() == good[folder / name]
    for path in good:
        checkpoint.load(path)
    assert not list(folder.glob(".*"))


def test_all_processes_end_if_the_first_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning.Trainer.save_checkpoint", lambda *_: None)
    agree = SimpleNamespace(reduce_boolean_decision=lambda own, all: True)
    other: Any = SimpleNamespace(strategy=agree, callbacks=[])
    agree.checkpoint_io = WholeFiles()
    monkeypatch.setattr(Trainer, "__init__", lambda self: None)
    trainer = Trainer()
    monkeypatch.setattr(Trainer, "strategy", other.strategy)
    with pytest.raises(SystemExit) as ended:
        trainer.save_checkpoint("any.ckpt")
    assert ended.value.code == 2


def test_what_the_system_refuses_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raised through Hydra, it would be the second: lines of Hydra's own come before."""

    def full(_: DictConfig) -> float:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/x/metrics.csv")

    monkeypatch.setattr(fit, "fit", full)
    monkeypatch.setattr(launch, "is_job", lambda: False)
    train = launch.train.__wrapped__  # without Hydra around it
    with pytest.raises(SystemExit) as ended:
        train(DictConfig({}))
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and "runs/x/metrics.csv" in line and "Make room" in line
    monkeypatch.setenv(launch.TRACEBACK, "1")
    with pytest.raises(OSError):
        train(DictConfig({}))

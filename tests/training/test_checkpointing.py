"""Checkpoints of a run are written beside their place, and a full disk costs none of them."""

import errno
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.tiny_runs import tiny_overrides, train_again, train_tiny

from seq2seq.base.errors import CheckpointError
from seq2seq.checkpoint.folder import load_archive
from seq2seq.training.checkpointing import AtomicCheckpoints, Trainer

STEPS = ("trainer.max_steps=4", "trainer.val_check_interval=2", "checkpoint.every=2")


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
    words = f"{name} cannot be written and is unchanged: No space left.*last.ckpt continues"
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
        load_archive(path)
    assert not list(folder.glob(".*"))


def test_all_processes_end_if_the_first_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning.Trainer.save_checkpoint", lambda *_: None)
    agree = SimpleNamespace(reduce_boolean_decision=lambda decision, all: True)
    other: Any = SimpleNamespace(strategy=agree, callbacks=[])
    agree.checkpoint_io = AtomicCheckpoints()
    monkeypatch.setattr(Trainer, "__init__", lambda self: None)
    trainer = Trainer()
    monkeypatch.setattr(Trainer, "strategy", other.strategy)
    with pytest.raises(SystemExit) as ended:
        trainer.save_checkpoint("any.ckpt")
    assert ended.value.code == 2


def test_last_is_written_on_the_way_and_at_the_end(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, int]] = []
    save = Trainer.save_checkpoint

    def record(self: Trainer, path: Any, *arguments: Any, **options: Any) -> None:
        written.append((Path(path).name, self.global_step))
        save(self, path, *arguments, **options)

    monkeypatch.setattr(Trainer, "save_checkpoint", record)
    train_tiny(base, "checkpoint.every=2", "trainer.max_steps=5")
    assert [step for name, step in written if name == "last.ckpt"] == [2, 4, 5]

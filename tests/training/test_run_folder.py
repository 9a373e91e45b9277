"""One run at a time in a folder, and errors of the system in one message."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from omegaconf import DictConfig

from seq2seq.base.errors import ConfigError
from seq2seq.training import launch, run
from seq2seq.training.run_folder import LOCK, lock_run

OF_OTHERS = [
    {"RANK": "1", "LOCAL_RANK": "0"},
    {"LOCAL_RANK": "1"},
    {"NODE_RANK": "1"},
    {"SLURM_PROCID": "1"},
]
FIRST = [{}, {"RANK": "0", "SLURM_PROCID": "1"}, {"LOCAL_RANK": "0", "NODE_RANK": "0"}]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    refused = pytest.raises(ConfigError, match="run: .*hydra.run.dir=ANOTHER")
    with lock_run(folder), refused, lock_run(folder):
        raise AssertionError("two runs in one folder")
    with lock_run(folder):
        pass


@pytest.mark.parametrize("environment", [*OF_OTHERS, *FIRST], ids=str)
def test_the_first_process_locks_for_all_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with lock_run(tmp_path):
        lock = FileLock(tmp_path / LOCK)
        if environment in FIRST:
            with pytest.raises(Timeout):
                lock.acquire(timeout=0)
        else:
            lock.acquire(timeout=0)
            lock.release()


def test_what_the_system_refuses_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raised through Hydra, it would come after lines that Hydra prints."""

    def full(_: DictConfig) -> float:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/x/metrics.csv")

    monkeypatch.setattr(run, "fit", full)
    monkeypatch.setattr(launch, "is_job", lambda: False)
    train = launch.train_from_config.__wrapped__  # without Hydra around it
    with pytest.raises(SystemExit) as ended:
        train(DictConfig({}))
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and "runs/x/metrics.csv" in line and "Free some space" in line
    monkeypatch.setenv(launch.TRACEBACK, "1")
    with pytest.raises(OSError):
        train(DictConfig({}))


def test_a_file_in_place_of_the_folder_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # main sets it: restored after the test
    monkeypatch.setattr(sys, "argv", ["train", f"hydra.run.dir={taken}"])
    with pytest.raises(SystemExit) as ended:
        launch.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and str(taken) in line and "hydra.run.dir=FOLDER" in line


REFUSED = [
    ("experiment=scan", "used"),
    *(
        pytest.param(typed, place, marks=pytest.mark.slow)
        for typed, place in (
            ("model.dim=3", ""),
            ("data=files", ""),
            ("experiment=scan", ""),
            ("experiment=scan", "new/folder"),
            ("experiment=scan", "empty"),
        )
    ),
]


@pytest.mark.parametrize(("typed", "place"), REFUSED)
def test_a_refused_run_leaves_nothing_and_removes_nothing(
    typed: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    command = [sys.executable, "-m", "seq2seq", "train", typed]
    command += [f"hydra.run.dir={place}"] * bool(place)
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2 and ended.stderr.startswith("error: ")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_refused_run_leaves_the_lock_of_an_earlier_one(tmp_path: Path) -> None:
    with lock_run(tmp_path):
        pass
    with pytest.raises(ConfigError, match="no"), lock_run(tmp_path):
        raise ConfigError("no")
    assert (tmp_path / LOCK).exists()

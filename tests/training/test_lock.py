"""One run at a time in a folder."""

from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from seq2seq.errors import ConfigError
from seq2seq.training.launch import LOCK, alone_in

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
    with alone_in(folder), refused, alone_in(folder):
        raise AssertionError("two runs in one folder")
    with alone_in(folder):
        pass


@pytest.mark.parametrize("environment", [*OF_OTHERS, *FIRST], ids=str)
def test_the_first_process_locks_for_all_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with alone_in(tmp_path):
        own = FileLock(tmp_path / LOCK)
        if environment in FIRST:
            with pytest.raises(Timeout):
                own.acquire(timeout=0)
        else:
            own.acquire(timeout=0)
            own.release()

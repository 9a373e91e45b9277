"""One run at a time in a folder."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from hydra.core.hydra_config import HydraConfig

from seq2seq.errors import ConfigError
from seq2seq.training.lock import alone_in, is_in_use
from seq2seq.training.resolvers import record

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
    with alone_in(folder):
        assert is_in_use(folder)
        with pytest.raises(ConfigError, match="run: .*hydra.run.dir=ANOTHER"), alone_in(folder):
            raise AssertionError("two runs in one folder")
    assert not is_in_use(folder)
    with alone_in(folder):
        pass


@pytest.mark.parametrize("environment", [*OF_OTHERS, *FIRST], ids=str)
def test_the_first_process_locks_for_all_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with alone_in(tmp_path):
        assert is_in_use(tmp_path) == (environment in FIRST)


def test_what_was_typed_is_recorded_only_by_the_run_that_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hydra = SimpleNamespace(runtime=SimpleNamespace(output_dir=str(tmp_path)))
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    assert record() == ".hydra"
    with FileLock(tmp_path / ".lock"):
        assert record() is None
    monkeypatch.setenv("RANK", "1")
    assert record() is None

"""Where the metrics go."""

import csv
from pathlib import Path

import pytest
from helpers.tiny_runs import metrics, train_tiny

from seq2seq.base.errors import ConfigError
from seq2seq.training.loggers import LOGGERS, PACKAGES, is_installed, read_logger, set_aside

FEW = ("trainer.max_steps=2",)
NODES = {
    "none": {},
    "csv": {},
    "tensorboard": {},
    "wandb": {"project": "p", "offline": True},
    "mlflow": {"experiment": "e", "uri": "sqlite:///x.db"},
}


def test_without_a_logger_no_file_of_metrics_is_written(base: Path) -> None:
    assert not (train_tiny(base, "logger=none", *FEW) / "metrics.csv").exists()


def test_tensorboard_gets_what_the_file_of_metrics_gets(base: Path) -> None:
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    folder = train_tiny(base, "logger=tensorboard", *FEW)
    events = event_accumulator.EventAccumulator(str(folder / "tensorboard")).Reload()
    for name in ("train/loss", "valid/bleu", "valid/chrf"):
        drawn = [event.value for event in events.Scalars(name)]
        assert drawn == pytest.approx(metrics(folder, name), rel=1e-5)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_service_beside_the_file_of_metrics(
    base: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    local = {"wandb": ["logger.offline=true"], "mlflow": [f"logger.uri=file:{tmp_path}/mlruns"]}
    folder = train_tiny(base, f"logger={name}", *local[name], *FEW)
    assert metrics(folder, "train/loss")
    assert any(folder.rglob("*.wandb")) or any(tmp_path.glob("mlruns/*/*/meta.yaml"))


@pytest.mark.parametrize("name", sorted(LOGGERS))
def test_a_logger_whose_package_is_missing_is_refused_before_anything_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.training.loggers.is_installed", lambda package: False)
    node = {"name": name, **NODES[name]}
    if name in PACKAGES:
        with pytest.raises(ConfigError, match=f"logger={name} needs.*pip install {name}"):
            read_logger(node)
    else:
        assert len(read_logger(node)(Path("nowhere"), "run")) == (name == "csv")


def test_an_unknown_logger_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown logger 'csvv'; did you mean 'csv'\?"):
        read_logger({"name": "csvv"})


def test_metrics_of_an_earlier_run_in_the_same_folder_are_kept(base: Path) -> None:
    folder = train_tiny(base, *FEW)
    first = (folder / "metrics.csv").read_text(encoding="utf-8")
    set_aside(folder / "metrics.csv")
    assert (folder / "metrics-1.csv").read_text(encoding="utf-8") == first
    assert list(csv.DictReader(first.splitlines()))


def test_no_kept_metrics_are_overwritten_when_some_were_deleted(tmp_path: Path) -> None:
    (tmp_path / "metrics-2.csv").write_text("older", encoding="utf-8")
    for n, text in ((1, "first"), (3, "third")):
        (tmp_path / "metrics.csv").write_text(text, encoding="utf-8")
        set_aside(tmp_path / "metrics.csv")
        assert (tmp_path / f"metrics-{n}.csv").read_text(encoding="utf-8") == text
    assert (tmp_path / "metrics-2.csv").read_text(encoding="utf-8") == "older"


def test_a_folder_called_like_a_package_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "curvedrawer").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("curvedrawer")
    (tmp_path / "realdrawer").mkdir()
    (tmp_path / "realdrawer" / "__init__.py").touch()
    assert is_installed("realdrawer")
    assert not is_installed("nodrawer")

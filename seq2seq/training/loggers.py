"""The outlets of a run's metrics: a CSV file, and a logger that plots them if one is chosen."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)
from lightning.pytorch.utilities import rank_zero_only

from seq2seq.errors import ConfigError
from seq2seq.tables import Table, check_options


@dataclass(frozen=True)
class LoggerOptions:
    """Base class; `package` must be installed."""

    package: ClassVar[str | None] = None


@dataclass(frozen=True)
class NoMetrics(LoggerOptions):
    """No metrics at all."""


@dataclass(frozen=True)
class CSV(LoggerOptions):
    """metrics.csv in the run's folder."""


@dataclass(frozen=True)
class TensorBoard(LoggerOptions):
    """metrics.csv, and event files for TensorBoard in the run's folder."""

    package = "tensorboard"


@dataclass(frozen=True)
class WeightsAndBiases(LoggerOptions):
    """metrics.csv, and Weights & Biases: into a project; offline keeps everything in the folder."""

    package = "wandb"
    project: str
    offline: bool


@dataclass(frozen=True)
class MLflow(LoggerOptions):
    """metrics.csv, and MLflow: into an experiment, at a tracking server or in a database file."""

    package = "mlflow"
    experiment: str
    uri: str


LOGGERS: Table[type[LoggerOptions]] = Table(
    "logger",
    {
        "none": NoMetrics,
        "csv": CSV,
        "tensorboard": TensorBoard,
        "wandb": WeightsAndBiases,
        "mlflow": MLflow,
    },
)


def read_logger(node: Mapping[str, Any]) -> LoggerOptions:
    """The options of a node of conf/logger. Raises: ConfigError, also if its package is missing."""
    options = dict(node)
    name = options.pop("name", None)
    chosen = LOGGERS.find(name)
    check_options(chosen, options, "logger")
    if chosen.package is not None and not is_installed(chosen.package):
        raise ConfigError(
            f"logger={name} needs the package {chosen.package}: pip install {chosen.package}"
        )
    return chosen(**options)


def is_installed(package: str) -> bool:
    """Is there a package of that name? It is not imported."""
    spec = find_spec(package)
    # Any folder of that name, such as the wandb/ of earlier runs, counts as a package too; but
    # without __init__.py it has no origin.
    return spec is not None and spec.origin is not None


def build_loggers(options: LoggerOptions, folder: Path, run_name: str) -> list[Logger]:
    """Lightning's loggers: metrics.csv always, except with `NoMetrics`."""
    if isinstance(options, NoMetrics):
        return []
    loggers: list[Logger] = [CSVLogger(folder, name="", version="", flush_logs_every_n_steps=1)]
    if isinstance(options, TensorBoard):
        loggers.append(TensorBoardLogger(folder, name="", version="tensorboard"))
    elif isinstance(options, WeightsAndBiases):
        offline = options.offline
        loggers.append(
            WandbLogger(name=run_name, project=options.project, save_dir=folder, offline=offline)
        )
    elif isinstance(options, MLflow):
        loggers.append(
            MLFlowLogger(options.experiment, run_name=run_name, tracking_uri=options.uri)
        )
    return loggers


def set_aside(path: Path) -> None:
    """Rename what an earlier run left in the same folder: metrics.csv becomes metrics-1.csv."""
    if path.exists() and getattr(rank_zero_only, "rank", 0) == 0:
        names = (path.with_stem(f"{path.stem}-{n}") for n in count(1))
        path.rename(next(name for name in names if not name.exists()))

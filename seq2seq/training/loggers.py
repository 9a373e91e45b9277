"""Loggers for the metrics of a run: a CSV file and, if chosen, a logger that plots them."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)
from lightning.pytorch.utilities import rank_zero_only

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table

LoggerBuilder = Callable[[Path, str], list[Logger]]  # takes a run's folder and its name


def log_to_csv(folder: Path, run_name: str) -> list[Logger]:
    """Log to metrics.csv in the run's folder."""
    return [CSVLogger(folder, name="", version="", flush_logs_every_n_steps=1)]


def log_to_tensorboard(folder: Path, run_name: str) -> list[Logger]:
    """Log to metrics.csv, and to event files for TensorBoard in the run's folder."""
    logger = TensorBoardLogger(folder, name="", version="tensorboard")
    return [*log_to_csv(folder, run_name), logger]


def log_to_wandb(folder: Path, run_name: str, *, project: str, offline: bool) -> list[Logger]:
    """Log to metrics.csv, and to a project of Weights & Biases, or offline to the run's folder."""
    logger = WandbLogger(name=run_name, project=project, save_dir=folder, offline=offline)
    return [*log_to_csv(folder, run_name), logger]


def log_to_mlflow(folder: Path, run_name: str, *, experiment: str, uri: str) -> list[Logger]:
    """Log to metrics.csv, and to an experiment of MLflow, on a server or in a database file."""
    logger = MLFlowLogger(experiment, run_name=run_name, tracking_uri=uri)
    return [*log_to_csv(folder, run_name), logger]


LOGGERS: Table[Callable[..., list[Logger]]] = Table(
    "logger",
    {
        "none": lambda folder, run_name: [],
        "csv": log_to_csv,
        "tensorboard": log_to_tensorboard,
        "wandb": log_to_wandb,
        "mlflow": log_to_mlflow,
    },
)
PACKAGES = ("tensorboard", "wandb", "mlflow")  # loggers that need a package of the same name


def read_logger(node: Mapping[str, Any]) -> LoggerBuilder:
    """The function that builds the loggers which a node of conf/logger describes.

    Raises: ConfigError if the name or an option is wrong, or if a package is not installed.
    """
    build: LoggerBuilder = LOGGERS.configure(node, "logger")
    name = node["name"]
    if name in PACKAGES and not is_installed(name):
        raise ConfigError(f"logger={name} needs the package {name}: pip install {name}")
    return build


def is_installed(package: str) -> bool:
    """True if a package of that name is installed. It is not imported."""
    spec = find_spec(package)
    # `find_spec` also finds any folder of that name, such as the wandb/ of earlier runs, but a
    # folder without __init__.py has no origin.
    return spec is not None and spec.origin is not None


def set_aside(path: Path) -> None:
    """Rename a file that an earlier run left in the folder: metrics.csv becomes metrics-1.csv."""
    if path.exists() and getattr(rank_zero_only, "rank", 0) == 0:
        names = (path.with_stem(f"{path.stem}-{n}") for n in count(1))
        path.rename(next(name for name in names if not name.exists()))

"""Where the curves of a run go: a file, and for those who want it a program that draws them."""

from itertools import count
from pathlib import Path

from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)
from lightning.pytorch.utilities import rank_zero_only

from seq2seq.training.logger_options import (
    LoggerOptions,
    MLflow,
    NoMetrics,
    TensorBoard,
    WeightsAndBiases,
)


def build_loggers(options: LoggerOptions, folder: Path, run_name: str) -> list[Logger]:
    """What Lightning is to write to: metrics.csv always, unless there are to be no metrics."""
    if isinstance(options, NoMetrics):
        return []
    csv = CSVLogger(folder, name="", version="", flush_logs_every_n_steps=1)
    if isinstance(options, TensorBoard):
        return [csv, TensorBoardLogger(folder, name="", version="tensorboard")]
    if isinstance(options, WeightsAndBiases):
        return [
            csv,
            WandbLogger(
                name=run_name, project=options.project, save_dir=folder, offline=options.offline
            ),
        ]
    if isinstance(options, MLflow):
        return [
            csv,
            MLFlowLogger(options.experiment, run_name=run_name, tracking_uri=options.uri),
        ]
    return [csv]


def set_aside(path: Path) -> None:
    """Give what an earlier run left in the same folder a number: metrics.csv, metrics-1.csv."""
    if path.exists() and getattr(rank_zero_only, "rank", 0) == 0:
        names = (path.with_stem(f"{path.stem}-{number}") for number in count(1))
        path.rename(next(name for name in names if not name.exists()))

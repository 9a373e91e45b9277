"""The folder of a run: its lock, so that one run at a time writes there, and the record of what was
typed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from seq2seq.base.durable import write_text
from seq2seq.base.environment import is_first_process
from seq2seq.base.errors import ConfigError

RECORD = ".hydra"  # folder in the run's folder
LOCK = ".lock"  # file in the run's folder; the system unlocks it when its process ends


def write_record(config: DictConfig, folder: Path) -> None:
    """Write the composed configuration, and what was typed, into a run's folder. Only the first
    process does so.

    Hydra would write them before any check, so that a refused command or a dry run would overwrite
    the record of an existing run.
    """
    if not is_first_process():
        return
    typed = HydraConfig.get().overrides.task
    parts = {"config": config, "hydra": HydraConfig.instance().cfg, "overrides": typed}
    (folder / RECORD).mkdir(exist_ok=True)
    for name, part in parts.items():
        write_text(folder / RECORD / f"{name}.yaml", OmegaConf.to_yaml(part))


def wait_for_run(folder: Path) -> None:
    """Wait until no process trains in a folder, as one may that outlived the command it is from."""
    if folder.is_dir():
        with FileLock(folder / LOCK):
            pass


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock a folder against other runs; the first process of a run does so for all of them.

    Raises: ConfigError if another run has locked it.
    """
    if not is_first_process():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(
            f"another run is writing to {folder}: the files of the two would mix. "
            "Wait until it ends, or choose another folder: hydra.run.dir=ANOTHER"
        ) from error
    try:
        yield
    finally:
        lock.release()

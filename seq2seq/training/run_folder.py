"""The folder of a run: its lock, so that one run at a time writes there, the record of what was
typed, and its removal if nothing was written.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock, Timeout
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from seq2seq.base.durable import write_text
from seq2seq.base.environment import is_first_process
from seq2seq.base.errors import ConfigError, Seq2SeqError

RECORD = ".hydra"  # folder in the run's folder
LOCK = ".lock"  # file in the run's folder; the system unlocks it when its process ends


class NewFolders(Callback):
    """Hydra callback that notes which folders a run creates; named in conf/train.yaml."""

    created: ClassVar[list[Path]] = []  # the folder of the run and those around it, inside out

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        HydraConfig.instance().set_config(config)  # the name of the folder refers to it
        folder = Path(config.hydra.run.dir).absolute()
        NewFolders.created = [path for path in (folder, *folder.parents) if not path.exists()]


def remove_empty_folders() -> None:
    """Remove the folders that this run has created, if nothing is in them: it was refused, or only
    tried out.
    """
    with suppress(OSError):  # such as a folder that is not empty
        for folder in NewFolders.created:
            folder.rmdir()


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
    """Lock a folder against other runs; the first process of a run does so for all of them. A run
    that is refused leaves no new lock behind.

    Raises: ConfigError if another run has locked it.
    """
    if not is_first_process():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock, is_new = FileLock(folder / LOCK), not (folder / LOCK).exists()
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(
            f"another run is writing to {folder}: the files of the two would mix. "
            "Wait until it ends, or choose another folder: hydra.run.dir=ANOTHER"
        ) from error
    try:
        yield
    except Seq2SeqError:
        if is_new:
            (folder / LOCK).unlink(missing_ok=True)
        raise
    finally:
        lock.release()

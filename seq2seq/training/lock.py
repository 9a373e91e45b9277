"""One run at a time in a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from seq2seq.environment import is_first
from seq2seq.errors import ConfigError

LOCK = ".lock"  # in the run's folder; the system forgets who held it when that process ends


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; the first process of a run does so for all of them.

    Raises: ConfigError if another run is there.
    """
    if not is_first():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(
            f"another run is writing to {folder}: the files of the two would be mixed. "
            "Wait until it has ended, or take another folder: hydra.run.dir=ANOTHER"
        ) from error
    try:
        yield
    finally:
        lock.release()

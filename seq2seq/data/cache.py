"""Folders that are computed once: written whole or not at all, by one process while others wait."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock

from seq2seq.errors import DataError


def cached_folder(
    cache: Path, name: str, whole: Callable[[Path], bool], write: Callable[[Path], None]
) -> Path:
    """The folder `cache/name`, computed if it is not there yet or not whole.

    It is written under another name and renamed at the end, so a process that is killed leaves
    nothing that looks finished. Of several processes one writes, and the others wait for it.

    Args:
        whole: whether an existing folder holds all it should.
        write: fills the empty folder it is given.

    Raises: DataError if the cache cannot be written, and whatever `write` raises.
    """
    folder = cache / name
    if whole(folder):
        return folder
    unfinished = cache / f"{name}.unfinished"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{name}.lock"):
            # Another process may have written it while this one waited for the lock.
            if not whole(folder):
                for remains in (unfinished, folder):
                    shutil.rmtree(remains, ignore_errors=True)
                unfinished.mkdir()
                try:
                    write(unfinished)
                    os.replace(unfinished, folder)
                finally:
                    shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"the cache {folder} cannot be written: {error.strerror or error}. "
            "Choose another place: data.cache=FOLDER"
        ) from error
    return folder


def digest(parts: Iterable[str]) -> str:
    """A name for all that a result depends on: settings, and hashes of files."""
    total = hashlib.sha256()
    for part in parts:
        # Hashes of the parts, not the parts: "ab", "c" and "a", "bc" are different settings.
        total.update(hashlib.sha256(part.encode()).digest())
    return total.hexdigest()[:32]

"""Folders of results, each computed once per content and written whole or not at all."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from seq2seq.data.file_memo import FileMemo, sha256_of
from seq2seq.durable import remove_stale, stage_of, sync
from seq2seq.errors import DataError

SEAL = "sha256.json"  # in a folder, written last: the hashes of all its other files


def compute_once(cache: Path, name: str, write: Callable[[Path], None]) -> Path:
    """The folder `cache/name`, computed if it is missing or has changed since it was written.

    It is written under another name, sealed, and renamed once it is on disk, so neither a killed
    process nor a power cut leaves a folder that looks finished. Of several processes of a machine,
    one writes and the others wait; if machines write it at once, the first that is done wins.

    Args:
        write: fills an empty folder with files. What it shares with other machines is there until
            one of them is done.

    Raises: DataError if the cache cannot be written, and whatever `write` raises.
    """
    folder, memo = cache / name, FileMemo(cache)
    if is_sealed(folder, memo):
        return folder
    stage = stage_of(folder)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{name}.lock"):  # saves work, where it holds, and nothing else
            # Another process may have written it while this one waited for the lock.
            if not is_sealed(folder, memo):
                stage.mkdir()
                remove_stale(stage)
                write(stage)
                seal(stage)
                put_in_place(stage, folder, memo)
    except (OSError, DataError) as error:
        if is_sealed(folder, memo):  # another machine was faster
            return folder
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the cache {folder} cannot be written: "
            f"{error.strerror or f'{error} (is the disk full?)'}. "
            "Choose another place: data.cache=FOLDER"
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return folder


def seal(folder: Path) -> None:
    """Wait until all files of a folder are on disk, with their hashes beside them."""
    hashes = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    (folder / SEAL).write_text(json.dumps(hashes), encoding="utf-8")
    for path in folder.iterdir():
        sync(path)
    with suppress(OSError):  # some file systems cannot
        sync(folder)


def put_in_place(stage: Path, folder: Path, memo: FileMemo) -> None:
    """Rename a sealed folder; one that is there and sealed stays, and a damaged one goes."""
    while True:
        try:
            os.rename(stage, folder)
            break
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        if is_sealed(folder, memo):
            return
        damaged = stage_of(folder)
        with suppress(FileNotFoundError):  # another machine did the same
            os.rename(folder, damaged)
        shutil.rmtree(damaged, ignore_errors=True)
    with suppress(OSError):
        sync(folder.parent)
    hashes = read_seal(folder)
    for name in hashes:  # so that the next start reads nothing again
        memo.recall(folder / name, "sha256", lambda path: hashes[path.name])


def read_seal(folder: Path) -> dict[str, str]:
    """The hashes of the files in a folder, by name. Raises: OSError, ValueError without them."""
    hashes: dict[str, str] = json.loads((folder / SEAL).read_text(encoding="utf-8"))
    return hashes


def is_sealed(folder: Path, memo: FileMemo) -> bool:
    """Does a folder hold what was written, to the last bit?

    A corpus of 20 GB takes a minute to hash, and hours to encode. `memo` keeps the hashes while the
    timestamps are unchanged, so only one start pays that minute. Changes that the file system does
    not see are left to the checksums of the disk.
    """
    try:
        hashes = read_seal(folder).items()
        return all(memo.sha256(folder / name) == known for name, known in hashes)
    except (OSError, ValueError, AttributeError, DataError):
        return False


def digest(parts: Iterable[str]) -> str:
    """A name for everything that a result depends on: settings, and hashes of files."""
    total = hashlib.sha256()
    for part in parts:
        # Hash each part first: "ab", "c" and "a", "bc" are different settings.
        total.update(hashlib.sha256(part.encode()).digest())
    return total.hexdigest()[:32]

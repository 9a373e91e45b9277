"""Cache of results computed from files: values such as hashes, so that large files are not read
again, and folders of results, written atomically.
"""

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from seq2seq.base.durable import remove_stale, stage_of, sync, write_text
from seq2seq.base.errors import DataError

SEAL = "sha256.json"  # last file written in a folder: the hashes of all others
T = TypeVar("T", str, int)

# A file this recent could change again within the resolution of its timestamps.
SETTLED_NS = 2 * 10**9


class FileMemo:
    """Values computed from files, saved as small notes, so that large files are not read again.

    A note is valid while size, mtime and ctime of its file are unchanged. If a note cannot be read
    or written, only time is lost.

    Args:
        cache: cache folder; the notes are in its subfolder `stamps`.
    """

    def __init__(self, cache: Path):
        self._folder = cache / "stamps"

    def recall(self, path: Path, what: str, compute: Callable[[Path], T]) -> T:
        """`compute(path)`, or its recorded value if the file has not changed since.

        Args:
            what: name of the value in the note.
            compute: function that reads the file and returns a string or an integer.

        Raises: any error of `compute`.
        """
        state = file_state(path)
        note = self._folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
        known = read_note(note, state)
        if what in known:
            result: T = known[what]
            return result
        began = time.time_ns()
        result = compute(path)
        if state is not None and began - max(state[1:]) > SETTLED_NS and file_state(path) == state:
            content = {"path": str(path), "state": state, "known": {**known, what: result}}
            with suppress(OSError):
                note.parent.mkdir(parents=True, exist_ok=True)
                write_text(note, json.dumps(content))
        return result

    def sha256(self, path: Path) -> str:
        """The hash of a file's bytes. Raises: DataError if it cannot be read."""
        return self.recall(path, "sha256", sha256_of)


def file_state(path: Path) -> list[int] | None:
    """Size, mtime and ctime; None for a missing file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def read_note(note: Path, state: list[int] | None) -> dict[str, Any]:
    """The values of a note; empty if its file has changed since."""
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
        return dict(content["known"]) if content["state"] == state else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def file_entry(path: Path, sha256: Callable[[Path], str] | None = None) -> dict[str, Any]:
    """Describe a file for a ledger. `sha256` computes its hash, by default with `sha256_of`."""
    return {"path": str(path), "sha256": (sha256 or sha256_of)(path), "bytes": path.stat().st_size}


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def compute_once(cache: Path, name: str, write: Callable[[Path], None]) -> Path:
    """The folder `cache/name`, computed if it is missing or has changed since it was written.

    The folder is written under a temporary name, sealed, and renamed once it is on disk, so neither
    a killed process nor a power cut leaves a folder that looks finished. Of several processes on a
    machine, one writes and the others wait; of several machines, the first to finish wins.

    Args:
        write: function that fills an empty folder with files. Files that it shares with other
            machines remain until one of them finishes.

    Raises: DataError if the cache cannot be written, and any error of `write`.
    """
    from filelock import FileLock  # imported here because translation needs no cache

    folder, memo = cache / name, FileMemo(cache)
    if is_sealed(folder, memo):
        return folder
    stage = stage_of(folder)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{name}.lock"):  # only saves work
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
    """Record the hashes of a folder's files, and wait until everything is on disk."""
    hashes = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    (folder / SEAL).write_text(json.dumps(hashes), encoding="utf-8")
    for path in folder.iterdir():
        sync(path)
    with suppress(OSError):  # unsupported on some file systems
        sync(folder)


def put_in_place(stage: Path, folder: Path, memo: FileMemo) -> None:
    """Rename a sealed folder: keep a valid existing one, replace a damaged one."""
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
    hashes = json.loads((folder / SEAL).read_text(encoding="utf-8"))
    for name in hashes:  # so that the next start reads nothing again
        memo.recall(folder / name, "sha256", lambda path: hashes[path.name])


def is_sealed(folder: Path, memo: FileMemo) -> bool:
    """True if the files of a folder are exactly as they were written.

    A corpus of 20 GB takes a minute to hash, and hours to encode. `memo` keeps the hashes while the
    timestamps are unchanged, so only the first start takes that minute. Changes that leave the
    timestamps alone are not detected.
    """
    try:
        hashes = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        return all(memo.sha256(folder / name) == known for name, known in hashes.items())
    except (OSError, ValueError, AttributeError, DataError):
        return False


def digest(parts: Iterable[str]) -> str:
    """Hash everything that a result depends on (settings, and hashes of files) into a name."""
    total = hashlib.sha256()
    for part in parts:
        # Hash each part first: "ab", "c" and "a", "bc" are different settings.
        total.update(hashlib.sha256(part.encode()).digest())
    return total.hexdigest()[:32]

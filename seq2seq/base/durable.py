"""Atomic writes: a file is complete or unchanged after a kill, a full disk or a power cut, and when
two machines write it at once.

Data written to another file system first, such as $TMPDIR, must be copied in the end, and a kill
during the copy leaves a partial file. Only a rename within one folder is atomic, so data are
written to a temporary *stage* next to the final path. Its name is random: process ids are not
unique among containers and machines that share a disk. Leftovers of killed processes are recognized
by their age alone, because a process cannot check whether one on another machine is alive, and
locks may not work on network disks.
"""

import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

STALE = 24 * 60 * 60  # seconds without a change after which a stage counts as abandoned
# Earlier versions put the process id where the random part is now.
STAGE = re.compile(r"\..*\.[0-9a-f]+\.unfinished")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` once it is written and synced to disk.

    If `path` is a symbolic link, its target is replaced. If it is a device, such as /dev/stdout,
    data go straight to it.

    Raises: OSError if the file cannot be written; `path` is then unchanged.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    path = path.resolve()
    stage = stage_of(path)
    try:
        with stage.open("xb") as file:
            remove_stale(stage)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            stage.chmod(path.stat().st_mode)
        os.replace(stage, path)
    except BaseException as error:
        stage.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(stage):
            error.filename = str(path)  # the name that the caller knows
        raise
    with suppress(OSError):  # unsupported on some file systems; the rename is synced later
        sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """`path.write_text` in UTF-8, atomically. Raises: OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def create_text(path: Path, text: str) -> None:
    """Like `write_text`, but never replace a file: the first of several writers creates it.

    Raises: FileExistsError if the file exists; another OSError if it cannot be written.
    """
    stage = stage_of(path)
    try:
        write_text(stage, text)
        try:
            os.link(stage, path)
        except OSError:  # no hard links here: briefly incomplete, but exclusive
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    finally:
        stage.unlink(missing_ok=True)


def stage_of(path: Path) -> Path:
    """A hidden, globally unique temporary name next to `path`."""
    # File systems allow 255 bytes, which `path.name` alone may already have.
    host = platform.node()[:20]
    return path.with_name(f".{path.name[:40]}.{host}.{secrets.token_hex(8)}.unfinished")


def remove_stale(stage: Path) -> None:
    """Remove abandoned stages from the folder of a new one.

    Ages are measured by the clock of the file system, because the clocks of machines may differ.
    """
    with suppress(OSError):  # the folder cannot be listed, or belongs to another user
        now = stage.stat().st_mtime
        for other in stage.parent.iterdir():
            with suppress(OSError):  # removed by another writer, or owned by another user
                if STAGE.fullmatch(other.name) and now - last_change_time(other) > STALE:
                    remove(other)


def last_change_time(path: Path) -> float:
    """Time of the last write to a file, or to anything in a folder, by the disk's clock."""
    return max(each.stat().st_mtime for each in (path, *path.rglob("*")))


def remove(path: Path) -> None:
    """Remove a file, or a folder and its contents, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on disk. Raises: OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

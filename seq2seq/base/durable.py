"""Atomic writes: a file is complete or unchanged after a kill, a full disk or a power cut, and when
two machines write it at once.

Data written to another file system first, such as $TMPDIR, must be copied in the end, and a kill
leaves a part of it. Only a rename within one folder is atomic. Until then data are in a *stage*
beside what they become. Its name is nobody else's: process ids are not, which containers and
machines on one disk share. What a killed process left is known by its age alone, since nobody can
tell whether a process of another machine lives, and since a lock on a network disk may be none.
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

STALE = 24 * 60 * 60  # seconds without a change, after which nobody is writing a stage any more
# Earlier versions had the id of the process where the random part is now.
STAGE = re.compile(r"\..*\.[0-9a-f]+\.unfinished")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` once it is written and synced to disk.

    For a symbolic link, its target is replaced; to a device, such as /dev/stdout, it is written at
    once.

    Raises: OSError if it cannot be written; `path` is then unchanged.
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
            error.filename = str(path)  # the name that was given
        raise
    with suppress(OSError):  # not on some file systems; the rename is synced later
        sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """`path.write_text` in UTF-8, atomically. Raises: OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def create_text(path: Path, text: str) -> None:
    """`write_text` for a file that is never replaced: the first of several writers creates it.

    Raises: FileExistsError if there is such a file; another OSError if it cannot be written.
    """
    stage = stage_of(path)
    try:
        write_text(stage, text)
        try:
            os.link(stage, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: not whole for an instant, but exclusive
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    finally:
        stage.unlink(missing_ok=True)


def stage_of(path: Path) -> Path:
    """A new name beside `path`: hidden, and nobody else's on any machine."""
    # At most 255 bytes in all, as file systems allow: `path.name` may have as many already.
    host = platform.node()[:20]
    return path.with_name(f".{path.name[:40]}.{host}.{secrets.token_hex(8)}.unfinished")


def remove_stale(stage: Path) -> None:
    """Remove the stages beside a new one that nobody is writing any more.

    Ages are measured by the clock of the file system, which also wrote the times of the others;
    those of the machines may differ.
    """
    with suppress(OSError):  # a folder that cannot be listed, or is of others
        now = stage.stat().st_mtime
        for other in stage.parent.iterdir():
            with suppress(OSError):  # removed by another writer, or somebody else's
                if STAGE.fullmatch(other.name) and now - last_change_time(other) > STALE:
                    remove(other)


def last_change_time(path: Path) -> float:
    """The time of the last write to a file, or to anything in a folder, by its disk's clock."""
    return max(each.stat().st_mtime for each in (path, *path.rglob("*")))


def remove(path: Path) -> None:
    """Remove a file or a folder with all it holds, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk. Raises: OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

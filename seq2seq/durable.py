"""Atomic writes: a file is complete or unchanged after a kill, a full disk or a power cut.

Data written to another file system first, such as $TMPDIR, must be copied in the end, and a kill
leaves a part of it. Only a rename within one folder is atomic.
"""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` once it is written and synced to disk.

    Until then it is a hidden file beside `path`. If this process is killed, the next that writes to
    `path` removes it. For a symbolic link, its target is replaced; to a device, such as
    /dev/stdout, it is written at once.

    Raises: OSError if it cannot be written; `path` is then unchanged.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    path = path.resolve()
    name = path.name[:50]  # which may already have the maximum length
    for remains in path.parent.glob(f".{glob.escape(name)}.*.unfinished"):
        pid = remains.name.split(".")[-2]
        if pid.isdecimal() and not is_alive(int(pid)):
            remains.unlink(missing_ok=True)
    stage = path.with_name(f".{name}.{os.getpid()}.unfinished")
    try:
        with stage.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            stage.chmod(path.stat().st_mode)
        os.replace(stage, path)
    except BaseException:
        stage.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not on Windows and some file systems; the rename is synced later
        sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """`path.write_text` in UTF-8, atomically. Raises: OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk. Raises: OSError."""
    opened = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def is_alive(pid: int) -> bool:
    """Is there a process with this id on this machine?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        pass
    return True

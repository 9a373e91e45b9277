"""Files that are whole or as they were, whatever happens: a kill, a full disk, a power cut.

What is written to another file system first, such as $TMPDIR, is copied in the end, and a kill
leaves a part of it. Only a rename within one folder is made at once.
"""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; it takes the place of `path` once it is written and on the disk.

    Meanwhile it lies beside `path`, hidden. If this process is killed it stays there, until the
    next one writes to `path`. Of a link, what it leads to is replaced.

    Raises: OSError if it cannot be written; `path` is then as it was.
    """
    path = path.resolve()
    name = path.name[:50]  # which may be as long as names can be
    for remains in path.parent.glob(f".{glob.escape(name)}.*.unfinished"):
        number = remains.name.split(".")[-2]
        if number.isdecimal() and not _lives(int(number)):
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
    with suppress(OSError):  # some file systems cannot, nor can Windows: the name comes in time
        sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """`path.write_text` in UTF-8, with the file whole or as it was. Raises: OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder. Raises: OSError."""
    opened = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _lives(process: int) -> bool:
    """Is there a process of this number on this machine?"""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # there is one, of somebody else
        pass
    return True

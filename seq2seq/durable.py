"""Files that are whole or as they were, whatever happens: a kill, a full disk, a power cut.

What is written to another file system first, such as $TMPDIR, is copied in the end, and a kill
leaves a part of it. Only a rename within one folder is made at once.
"""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; it takes the place of `path` once it is written and on the disk.

    Meanwhile it lies beside `path`, hidden. If this process is killed it stays there, until the
    next one writes to `path`.

    Raises: OSError if it cannot be written; `path` is then as it was.
    """
    for remains in path.parent.glob(f".{glob.escape(path.name)}.*.unfinished"):
        remains.unlink(missing_ok=True)
    stage = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with stage.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(stage, path)
    except BaseException:
        stage.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """`path.write_text` in UTF-8, with the file whole or as it was. Raises: OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk too, where the system can (Windows cannot)."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

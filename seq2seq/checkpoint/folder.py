"""Find, read and write the model files of a run: zip archives by torch that hold only numbers and
text.
"""

import os
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import torch

from seq2seq.base.durable import replacing
from seq2seq.base.errors import CheckpointError

BEST = "best.ckpt"  # the model of the best validation
LAST = "last.ckpt"  # the model and training state of the last validation
KEPT = "kept"  # the folder of weights kept from several validations
EXPANSION = 20  # maximum ratio of unpacked to packed size: weights can hardly be compressed
MAX_ENTRIES = 10_000  # folder entries to look at in the search for a run


def find_checkpoint(path: Path) -> Path:
    """The checkpoint at a path: the file itself, or in a run's folder best.ckpt, else last.ckpt.

    Raises: CheckpointError if there is no checkpoint; the message says what is there instead.
    """
    if path.is_file():
        return path
    if not path.exists():
        raise CheckpointError(f"there is no {path}: give a .ckpt file or the folder of a run")
    if not path.is_dir():
        raise CheckpointError(f"{path} is a pipe or a device: give a .ckpt file, or a run's folder")
    for name in (BEST, LAST):
        if (path / name).is_file():
            return path / name
    suggestion = max(runs_below(path), default=None)
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    raise CheckpointError(f"{path} holds neither {BEST} nor {LAST}{hint}")


def runs_below(folder: Path) -> Iterator[Path]:
    """The best.ckpt of every run below a folder, those nearest the top first.

    Looks at no more than `MAX_ENTRIES` entries. Folders that cannot be read, or vanish meanwhile,
    are skipped.
    """
    folders, left = deque([folder]), MAX_ENTRIES
    while folders and left > 0:
        with suppress(OSError), os.scandir(folders.popleft()) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.name == BEST:
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))


def load_archive(file: Path) -> Any:
    """The content of a file that torch wrote. Its tensors are mapped from the file, so that a
    training state that is not used takes no memory.

    The file is opened only once, so that exactly what was verified is loaded, even if a run
    replaces the file meanwhile.

    Raises: CheckpointError if the file holds more than numbers and text, is damaged, or was not
        written by torch.
    """
    with file.open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise CheckpointError(
                f"{file} is not a checkpoint, or only the first part of one: it is not a zip "
                "archive. Give a .ckpt file or the folder of a run; if this is one, copy it again"
            )
        try:
            archive = zipfile.ZipFile(stream)
            damage = find_damage(archive, os.fstat(stream.fileno()).st_size)
            content = None if damage else load_open(stream, archive)
        # For a damaged file torch raises almost anything: it may read any byte as text, as a
        # number, or as the name of a function.
        except Exception as error:
            raise CheckpointError(
                f"{file} is not a checkpoint of seq2seq: it is damaged, or holds more than numbers "
                "and text"
            ) from error
    if damage:
        raise CheckpointError(f"{file} is damaged: {damage}. If it is a copy, copy it again")
    return content


def find_damage(archive: zipfile.ZipFile, size: int) -> str | None:
    """The damage of an archive whose file has `size` bytes, in words; None if it is intact.

    Needed because torch verifies no checksums.
    """
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > EXPANSION * size:
        return f"{size:,} bytes would become {unpacked:,}"
    part = archive.testzip()
    return None if part is None else f"its part {part} does not match its checksum"


def load_open(stream: BinaryIO, archive: zipfile.ZipFile) -> Any:
    """Load an open file: mapped into memory, or read into it if it is compressed."""
    is_plain = all(each.compress_type == zipfile.ZIP_STORED for each in archive.infolist())
    path = f"/dev/fd/{stream.fileno()}"  # this very file, even if another has taken its name
    return torch.load(path, map_location="cpu", weights_only=True, mmap=is_plain)


def save_archive(content: Mapping[str, Any], path: Path, *, compressed: bool = False) -> None:
    """Write a checkpoint. If that fails, an existing file stays unchanged.

    Args:
        compressed: True for a smaller file, which is later read into memory instead of mapped.

    Raises: CheckpointError if the file cannot be written.
    """
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is not a file, so it cannot hold a model: give another name")
    try:
        with replacing(path) as file:
            if compressed:
                write_compressed(content, file)
            else:
                torch.save(content, file)
    except (RuntimeError, OSError) as error:
        # When a write fails, torch raises its own error, whose context holds the reason.
        reason = error if isinstance(error, OSError) else error.__context__ or error
        words = getattr(reason, "strerror", None) or str(reason).partition("\n")[0]
        before = " and is unchanged" if path.exists() else ""
        raise CheckpointError(f"{path} cannot be written{before}: {words}") from error


def write_compressed(content: Mapping[str, Any], file: BinaryIO) -> None:
    plain = BytesIO()
    torch.save(content, plain)
    with zipfile.ZipFile(plain) as parts, zipfile.ZipFile(file, "w") as archive:
        for name in parts.namelist():
            # Without the time of day, so that equal weights give equal files.
            archive.writestr(zipfile.ZipInfo(name), parts.read(name), zipfile.ZIP_DEFLATED)

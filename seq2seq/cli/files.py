"""Checks of the files that a command reads and writes, before it does any work."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import is_dataclass
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.base.text_stream import check_text
from seq2seq.data.text.lines import similar_names

ARCHIVE = b"PK\x03\x04"  # the first bytes of a checkpoint
STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")
# Files and folders that a run, `align --choose` and `shortlist` write into the run's folder.
OF_A_RUN = (
    *("best.ckpt", "best-[0-9]*.ckpt", "last.ckpt", "last-[0-9]*.ckpt"),
    *("metrics*.csv", "samples*.txt", "data.json", "result*.json", "error.txt"),
    *("*.alignment.json", "shortlist.bin", "*.lock", "multirun.yaml"),
)
FOLDERS_OF_A_RUN = (".hydra", "kept", "kept-[0-9]*", "tensorboard", "wandb")


class InputPath(type(Path())):  # type: ignore[misc]  # Path itself cannot be derived from yet
    """A file or folder that a command reads: the type of every option that names one. So what is
    read is known from the options, and no output overwrites it.
    """


def inputs_of(options: Any) -> list[Path]:
    """The files and folders that options name and a command reads."""
    values = (value if isinstance(value, list) else [value] for value in vars(options).values())
    found: list[Path] = []
    for value in chain.from_iterable(values):
        if is_dataclass(value):
            found += inputs_of(value)
        elif isinstance(value, InputPath):
            found.append(value)
    return found


def folder_of(model: Path) -> Path:
    """The folder of the run that a path or a checkpoint belongs to: the default for output."""
    folder = model if model.is_dir() else model.parent
    folder = folder.parent if is_one_of(folder, FOLDERS_OF_A_RUN) else folder
    return folder if folder.is_dir() else Path()  # opening the model will report it


def check_input(path: Path) -> None:
    """Raises: ConfigError if there is no such file; DataError if it is clearly not text."""
    if not path.exists():
        raise ConfigError(f"--input {path}: there is no such file. {similar_names(path)}")
    if path.is_dir():
        raise ConfigError(f"--input {path} is a folder: give the name of a file")
    check_text(path)


def warn_of_files(texts: Iterable[str | None], mend: str) -> None:
    """Warn of a text that is the name of a file: its content may be meant.

    Args:
        mend: what to type then.
    """
    for text in texts:
        if text and os.path.isfile(text):
            warnings.warn(f"{text} is the name of a file, but read as text. {mend}", stacklevel=2)


def is_archive(path: Path) -> bool:
    """Does a file begin as every checkpoint does, and no text does?"""
    with path.open("rb") as file:
        return file.read(len(ARCHIVE)) == ARCHIVE


def check_written(output: Path | None, *read: Path | None, model: bool = False) -> None:
    """Check that a command can write to a file without destroying another.

    Args:
        output: None for standard output alone. That is always checked too: the shell may have
            redirected it to a file that is read.
        read: the files that the command reads, such as `inputs_of` its options; None for those
            not given. Of the folder of a run, its files are kept.
        model: does the command write a model?

    Raises: ConfigError if the file cannot be written, or if it is one that is read (also through a
        link), a file of a run, a model that would become another kind of file, or the reverse.
    """
    check_apart([STDOUT], "standard output", read)
    if output is None:
        return
    check_uncompressed(output)
    if not output.parent.is_dir():
        raise ConfigError(f"-o {output}: there is no folder {output.parent}")
    if output.is_dir():
        raise ConfigError(f"-o {output} is a folder: give the name of a file")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise ConfigError(f"-o {output} is not writable: give another place")
    check_apart([output], f"-o {output}", read)
    is_old = output.is_file() and output.stat().st_size and output.suffix != ".docx"
    if is_old and is_archive(output) != model:
        what = "a file that is not a model" if model else "a model"
        raise ConfigError(f"-o {output} would overwrite {what}: give another name")
    if run := find_run(output):
        raise ConfigError(f"-o {output} is a file of the run {run}: give another name")
    folders = (path for path in read if path is not None and path.is_dir())
    inside = chain.from_iterable(folder.iterdir() for folder in folders)
    check_apart([output], f"-o {output}", (path for path in inside if is_one_of(path, OF_A_RUN)))


def check_new_folder(path: Path) -> None:
    """Raises: ConfigError if a folder that a command makes is there, and not empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"-o {path} exists: give a folder that is new or empty")


def check_uncompressed(path: Path) -> None:
    if path.suffix == ".gz":
        raise ConfigError(f"-o {path}: output is not compressed: -o {path.with_suffix('')}")


def check_apart(outputs: Iterable[Path], called: str, read: Iterable[Path | None]) -> None:
    """Raises: ConfigError if an output is a file that is read, by whatever name or link."""
    known = {device_and_inode(path): path for path in read if path is not None and path.exists()}
    for output in outputs:
        # No pipe and no terminal.
        if output.is_file() and (path := known.get(device_and_inode(output))) is not None:
            raise ConfigError(f"{called} would overwrite {path}, which is read: give another name")


def device_and_inode(path: Path) -> tuple[int, int]:
    """The disk of a file and its number there, which all of its names have in common."""
    status = path.stat()
    return status.st_dev, status.st_ino


def find_run(path: Path) -> Path | None:
    """The folder of the run that writes files of this path, if any."""
    path = path.resolve()
    inside = [folder for folder in path.parents if is_one_of(folder, FOLDERS_OF_A_RUN)]
    folder = inside[-1].parent if inside else path.parent
    named = inside or is_one_of(path, OF_A_RUN)
    is_run = (folder / ".hydra").is_dir() or any(folder.glob("*.ckpt"))
    return folder if named and is_run else None


def is_one_of(path: Path, names: Iterable[str]) -> bool:
    return any(fnmatch(path.name, name) for name in names)

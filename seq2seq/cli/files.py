"""Check the files that a command reads and writes before it does any work."""

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
from seq2seq.text.documents.files.archives import SUFFIXES as ARCHIVES

ARCHIVE = b"PK\x03\x04"  # the first bytes of a checkpoint
STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")
# Files and folders that a run, `align --choose` and `shortlist` write into the run's folder.
CHECKPOINTS = ("best.ckpt", "best-[0-9]*.ckpt", "last.ckpt", "last-[0-9]*.ckpt")
RECORDS = ("metrics*.csv", "samples*.txt", "data.json", "result*.json", "error.txt")
OTHERS = ("*.alignment.json", "shortlist.bin", "*.lock", "multirun.yaml")
OF_A_RUN = CHECKPOINTS + RECORDS + OTHERS
FOLDERS_OF_A_RUN = (".hydra", "kept", "kept-[0-9]*", "tensorboard", "wandb")


class InputPath(type(Path())):  # type: ignore[misc]  # Python 3.11 has no subclasses of Path itself
    """A file or folder that a command reads. Every option that names one has this type, so that
    no output overwrites it.
    """


def inputs_of(options: Any) -> list[Path]:
    """The files and folders among the options that the command reads."""
    values = (value if isinstance(value, list) else [value] for value in vars(options).values())
    found: list[Path] = []
    for value in chain.from_iterable(values):
        if is_dataclass(value):
            found += inputs_of(value)
        elif isinstance(value, InputPath):
            found.append(value)
    return found


def folder_of(model: Path) -> Path:
    """The folder of the run that a checkpoint belongs to: the default place for output."""
    folder = model if model.is_dir() else model.parent
    folder = folder.parent if is_one_of(folder, FOLDERS_OF_A_RUN) else folder
    return folder if folder.is_dir() else Path()  # opening the model will report the mistake


def check_input(path: Path) -> None:
    """Raises: ConfigError if --input does not exist; DataError if it is clearly not text."""
    if not path.exists():
        raise ConfigError(f"--input {path}: there is no such file. {similar_names(path)}")
    if path.is_dir():
        raise ConfigError(f"--input {path} is a folder: give the name of a file")
    check_text(path)


def warn_of_files(texts: Iterable[str | None], mend: str) -> None:
    """Warn of texts that are names of files, since the content of the file may be meant.

    Args:
        mend: advice on what to type in that case.
    """
    for text in texts:
        if text and os.path.isfile(text):
            warnings.warn(f"{text} is the name of a file, but read as text. {mend}", stacklevel=2)


def is_archive(path: Path) -> bool:
    """True if a file starts with the bytes of a zip archive, as every checkpoint does."""
    with path.open("rb") as file:
        return file.read(len(ARCHIVE)) == ARCHIVE


def check_written(output: Path | None, *read: Path | None, model: bool = False) -> None:
    """Check that a command can write a file without destroying another.

    Args:
        output: file to write; None if there is only standard output, which is always checked: the
            shell may have redirected it to a file that is read.
        read: files that the command reads, usually `inputs_of` its options; None is ignored. The
            files of a run are protected if its folder is read.
        model: True if the command writes a model.

    Raises: ConfigError if the file cannot be written, or if it is also read (even through a link),
        if it belongs to a run, or if a model would replace another kind of file or the reverse.
    """
    check_apart([STDOUT], "standard output", read)
    if output is None:
        return
    check_name(output)
    if not output.parent.is_dir():
        raise ConfigError(f"-o {output}: there is no folder {output.parent}")
    if output.is_dir():
        raise ConfigError(f"-o {output} is a folder: give the name of a file")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise ConfigError(f"-o {output} is not writable: give another place")
    check_apart([output], f"-o {output}", read)
    is_old = output.is_file() and output.stat().st_size and output.suffix not in ARCHIVES
    if is_old and is_archive(output) != model:
        what = "a file that is not a model" if model else "a model"
        raise ConfigError(f"-o {output} would overwrite {what}: give another name")
    if run := find_run(output):
        raise ConfigError(f"-o {output} is a file of the run {run}: give another name")
    folders = (path for path in read if path is not None and path.is_dir())
    inside = chain.from_iterable(folder.iterdir() for folder in folders)
    check_apart([output], f"-o {output}", (path for path in inside if is_one_of(path, OF_A_RUN)))


def check_new_folder(path: Path) -> None:
    """Raises: ConfigError if the folder to write exists and is not empty."""
    check_name(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"-o {path} exists: give a folder that is new or empty")


def check_name(path: Path) -> None:
    """Raises: ConfigError for `-`, as if it were standard output, and for a compressed file."""
    if path == Path("-"):
        raise ConfigError("-o - is no file: leave -o out to write to standard output")
    if path.suffix == ".gz":
        raise ConfigError(f"-o {path}: output is not compressed: -o {path.with_suffix('')}")


def check_apart(outputs: Iterable[Path], called: str, read: Iterable[Path | None]) -> None:
    """Raises: ConfigError if an output is also read, under any name or through a link."""
    known = {device_and_inode(path): path for path in read if path is not None and path.exists()}
    for output in outputs:
        # Pipes and terminals are not overwritten.
        if output.is_file() and (path := known.get(device_and_inode(output))) is not None:
            raise ConfigError(f"{called} would overwrite {path}, which is read: give another name")


def device_and_inode(path: Path) -> tuple[int, int]:
    """The device and inode of a file, which are the same for all its names."""
    status = path.stat()
    return status.st_dev, status.st_ino


def find_run(path: Path) -> Path | None:
    """The folder of the run to which a file of this name belongs; None if there is no such run."""
    path = path.resolve()
    inside = [folder for folder in path.parents if is_one_of(folder, FOLDERS_OF_A_RUN)]
    folder = inside[-1].parent if inside else path.parent
    named = inside or is_one_of(path, OF_A_RUN)
    is_run = (folder / ".hydra").is_dir() or any(folder.glob("*.ckpt"))
    return folder if named and is_run else None


def is_one_of(path: Path, names: Iterable[str]) -> bool:
    return any(fnmatch(path.name, name) for name in names)

"""Read files of other programs safely: with limits on their sizes, and without running any code."""

import json
import pickletools
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.errors import DataError
from seq2seq.base.plugins import import_library
from seq2seq.data.corpus.cache import sha256_of

TEXT = 2**26  # maximum size of a description or a vocabulary in bytes
WEIGHTS = 2**36  # maximum size of all weights in bytes
SMALL = 2**16  # numbers of elements up to this are always harmless
MAGIC = 0x1950A86A20F9469CFC6C  # magic number of torch.save before version 1.6


class Folder:
    """A folder that gives access only to files inside it.

    Attributes:
        read: SHA-256 of each file that was opened, by name. Folders may share it.
    """

    def __init__(self, path: Path, read: dict[str, str] | None = None):
        if not path.is_dir():
            raise DataError(f"{path} is not a folder: give the folder of a model")
        self.path = path
        self.read: dict[str, str] = {} if read is None else read

    def __contains__(self, name: str) -> bool:
        return (self.path / name).is_file()

    def find(self, name: str, largest: int = TEXT) -> Path:
        """The path of a file in the folder.

        Raises: DataError if the file is missing, too large, or a link to a place outside.
        """
        path = self.path / name
        if not path.is_file():
            raise DataError(f"{path} is missing, or not a file")
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise DataError(f"{path} is a link to another folder: put a copy there (cp -rL)")
        if (size := path.stat().st_size) > largest:
            raise DataError(f"{path} has {size:,} bytes; expected {largest:,} or less")
        self.read[name] = sha256_of(path)
        return path

    def json(self, name: str) -> dict[str, Any]:
        """The object in a JSON file. Raises: DataError if the file holds no JSON object."""
        path = self.find(name)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            json.dumps(content, ensure_ascii=False).encode()  # fails if a surrogate is alone
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise DataError(f"{path} should hold a JSON object, not a {type(content).__name__}")
        return content


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name.

    Raises: DataError if it is not a safetensors file; ConfigError if the package is not installed.
    """
    import_library("safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, RuntimeError, ValueError, OSError) as error:
        raise DataError(f"{path} is not a safetensors file: {error}") from error


def read_torch_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that torch wrote, by name.

    Raises: DataError if the file is damaged or contains anything other than named tensors.
    """
    try:
        if zipfile.is_zipfile(path):
            check_sizes(path)
        else:
            with path.open("rb") as file:
                check_numbers(file, path.stat().st_size)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except DataError:
        raise
    # For a damaged file torch raises almost anything.
    except Exception as error:
        raise DataError(
            f"{path} is damaged, or holds more than weights, such as code, which is never run "
            f"({type(error).__name__})"
        ) from error
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) and is_stored(value)
        for name, value in content.items()
    ):
        raise DataError(f"{path} should hold named tensors, each stored in full")
    return content


def is_stored(value: Tensor) -> bool:
    """True if the file stores all elements of a tensor; a tensor with a stride of zero may claim to
    have any number of elements.
    """
    if value.layout is not torch.strided or value.is_meta:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def check_sizes(path: Path) -> None:
    """Check that an archive does not grow too much when it is unpacked.

    Raises: DataError if the unpacked size is out of proportion.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > min(20 * path.stat().st_size, WEIGHTS):
        raise DataError(f"{path} is not a file of weights: unpacked, it has {size:,} bytes")


def check_numbers(file: BinaryIO, size: int) -> None:
    """Inspect the pickles in a file by torch before version 1.6, without unpickling them.

    Raises: DataError if a number is too large to be the size of a tensor in this file.
    """
    for _ in range(4):  # magic number, version, system, content; keys and numbers follow
        for _, value, _ in pickletools.genops(file):
            if isinstance(value, int) and value > max(size, SMALL) and value != MAGIC:
                raise DataError(f"{file.name} claims to have {value:,} elements in {size:,} bytes")


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a NumPy archive, by name.

    Raises: DataError if the archive is damaged or holds pickled objects.
    """
    try:
        check_sizes(path)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: x for name, x in arrays.items() if isinstance(x, np.ndarray)}
    except DataError:
        raise
    except Exception as error:  # a damaged archive raises almost anything
        raise DataError(f"{path} is not an archive of arrays: {error}") from error

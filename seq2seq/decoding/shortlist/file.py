"""The file of a shortlist, beside the checkpoints of a run: `shortlist.bin`.

It holds a line of JSON with the number and a digest of the pieces of both languages, then the two
arrays, little-endian. It fits all models with these pieces.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2seq.base.durable import replacing
from seq2seq.base.errors import DataError
from seq2seq.base.registry import matches
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.text.tokenization.tokenizer import Tokenizers

NAME = "shortlist.bin"
FORMAT = 1
LONGEST_HEADER = 4096  # bytes
HEADER = {"format": int, "source": list, "target": list, "ids": int}
MAKE = "Make another: seq2seq shortlist RUN --source FILE --target FILE --align"


def path_of(path: Path) -> Path:
    """The shortlist file at a path, or in it if the path is the folder of a run."""
    return path / NAME if path.is_dir() else path


def find_shortlist(checkpoint: Path) -> Path | None:
    """The shortlist file beside a checkpoint, or in the folder of a run; None if it is missing."""
    file = path_of(checkpoint if checkpoint.is_dir() else checkpoint.parent)
    return file if file.is_file() else None


def write_shortlist(file: Path, lists: Shortlist, tokenizers: Tokenizers) -> None:
    """Write the shortlist of these tokenizers. Raises: OSError if it cannot be written."""
    header = {**pieces_of(tokenizers), "format": FORMAT, "ids": len(lists.ids)}
    with replacing(file) as output:
        output.write(f"{json.dumps(header)}\n".encode())
        output.write(lists.offsets.numpy().astype("<i8").tobytes())
        output.write(lists.ids.numpy().astype("<i4").tobytes())


def pieces_of(tokenizers: Tokenizers) -> dict[str, Any]:
    """The number of each side's pieces, and a digest of their names."""
    sides = tokenizers._asdict().items()
    names = {side: json.dumps(tokenizer.symbols()).encode() for side, tokenizer in sides}
    return {s: [pieces.size, hashlib.sha256(names[s]).hexdigest()] for s, pieces in sides}


def read_shortlist(path: Path, tokenizers: Tokenizers) -> Shortlist:
    """Read a shortlist from a file, or from the folder of a run.

    Raises: DataError if the file cannot be read, is not a valid shortlist, or is for other
        tokenizers.
    """
    file = path_of(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"the shortlist {file} cannot be read: {error.strerror}. {MAKE}") from error
    line, _, arrays = content.partition(b"\n")
    header = parse_first_line(line)
    if header is None:
        raise DataError(f"{file} is not a shortlist of seq2seq in format {FORMAT}. {MAKE}")
    for side, (size, digest) in pieces_of(tokenizers).items():
        if header[side] != [size, digest]:
            raise DataError(
                f"the shortlist {file} belongs to another model: its {side} pieces are not the "
                f"{size:,} of this one. {MAKE}"
            )
    sizes = tokenizers.source.size + 2, header["ids"]
    if min(sizes) < 0 or len(arrays) != 8 * sizes[0] + 4 * sizes[1]:
        raise DataError(
            f"the shortlist {file} is damaged: its size is not what its header says. Copy it "
            f"again. {MAKE}"
        )
    offsets = np.frombuffer(arrays, "<i8", sizes[0]).astype(np.int64)
    ids = np.frombuffer(arrays, "<i4", sizes[1], 8 * sizes[0]).astype(np.int32)
    if not are_lists(offsets, ids, tokenizers.target.size):
        raise DataError(f"the shortlist {file} is damaged: its lists are not valid. {MAKE}")
    return Shortlist(torch.from_numpy(offsets), torch.from_numpy(ids))


def parse_first_line(line: bytes) -> dict[str, Any] | None:
    """The header in a file's first line; None if it is not a header of this format."""
    if len(line) > LONGEST_HEADER:
        return None
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(header, dict) and matches(header, HEADER) and header["format"] == FORMAT
    return header if known else None


def are_lists(offsets: Any, ids: Any, size: int) -> bool:
    """True if these are consecutive lists of ids below `size`, each ascending."""
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        return False
    begins = np.zeros(len(ids) + 1, dtype=bool)
    begins[offsets] = True
    ascends = begins[1:-1] | (np.diff(ids) > 0)
    return bool(ascends.all() and ((ids >= 0) & (ids < size)).all())

"""Values computed from files, such as hashes, kept so that large files are not read again."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from seq2seq.durable import write_text
from seq2seq.errors import DataError

T = TypeVar("T", str, int)

# A file this recent could change again within the resolution of its timestamps.
SETTLED_NS = 2 * 10**9


class FileMemo:
    """Values computed from files, kept as small notes, so that large files are not read again.

    A note is valid while size, mtime and ctime of its file are unchanged. A note that cannot be
    read or written costs time, and nothing else.

    Args:
        cache: the notes are in its folder `stamps`.
    """

    def __init__(self, cache: Path):
        self._folder = cache / "stamps"

    def recall(self, path: Path, what: str, compute: Callable[[Path], T]) -> T:
        """`compute(path)`, or its recorded value if the file has not changed since.

        Args:
            what: the name of the value in the note.
            compute: reads the file; returns a string or an integer.

        Raises: whatever `compute` raises.
        """
        state = file_state(path)
        note = self._folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
        known = read_note(note, state)
        if what in known:
            result: T = known[what]
            return result
        began = time.time_ns()
        result = compute(path)
        if state is not None and began - max(state[1:]) > SETTLED_NS and file_state(path) == state:
            write_note(note, {"path": str(path), "state": state, "known": {**known, what: result}})
        return result

    def sha256(self, path: Path) -> str:
        """The hash of a file's bytes. Raises: DataError if it cannot be read."""
        return self.recall(path, "sha256", sha256_of)


def file_state(path: Path) -> list[int] | None:
    """Size, mtime and ctime; None for a missing file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def read_note(note: Path, state: list[int] | None) -> dict[str, Any]:
    """The values of a note, none if its file has changed since."""
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
        return dict(content["known"]) if content["state"] == state else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def write_note(note: Path, content: dict[str, Any]) -> None:
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        write_text(note, json.dumps(content))


def file_entry(path: Path, sha256: Callable[[Path], str] | None = None) -> dict[str, Any]:
    """A file in a ledger; `sha256` is `sha256_of` unless its values are kept."""
    return {"path": str(path), "sha256": (sha256 or sha256_of)(path), "bytes": path.stat().st_size}


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error

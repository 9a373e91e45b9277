"""What was found out about a file, remembered until the file changes."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from seq2seq.errors import DataError

T = TypeVar("T", str, int)

# A file that changed so recently could change again within the resolution of its times.
SETTLED_NS = 2 * 10**9


class Stamps:
    """Facts about files in a folder of small notes, so that a large file is not read at each start.

    A note counts only while size, time of change and time of the entry are those it was made for.
    A note that cannot be read or written costs time, and nothing else.

    Args:
        cache: the notes are in its folder `stamps`.
    """

    def __init__(self, cache: Path):
        self._folder = cache / "stamps"

    def recall(self, path: Path, what: str, compute: Callable[[Path], T]) -> T:
        """`compute(path)`, or what it gave when the file was as it is now.

        Args:
            what: the name of the fact in the note.
            compute: reads the file; a string or a whole number.

        Raises: whatever `compute` raises.
        """
        state = _state(path)
        note = self._folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
        known = _known(note, state)
        if what in known:
            found: T = known[what]
            return found
        began = time.time_ns()
        found = compute(path)
        if state is not None and began - max(state[1:]) > SETTLED_NS and _state(path) == state:
            _write(note, {"path": str(path), "state": state, "known": {**known, what: found}})
        return found

    def sha256(self, path: Path) -> str:
        """The hash of a file's bytes. Raises: DataError if it cannot be read."""
        return self.recall(path, "sha256", _sha256)


def _state(path: Path) -> list[int] | None:
    """Size, modification and change of entry; None for what is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _known(note: Path, state: list[int] | None) -> dict[str, Any]:
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
        return dict(content["known"]) if content["state"] == state else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _write(note: Path, content: dict[str, Any]) -> None:
    unfinished = note.with_name(f"{note.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        os.replace(unfinished, note)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error

"""Records that the service keeps for its clients, in a folder named by the operator.

A record is some bytes and a few facts about them, its metadata. Its kind sets its limits: there are
the clients' glossaries and suggestions, and the documents that they upload and fetch later, which
expire. To keep anything else, add a kind to `KINDS`.

A record is a file KIND/CLIENT/ID, written as a whole: a line of JSON, then the bytes. CLIENT is a
digest of the client and ID is random, so no file name comes from outside, and clients find only
their own records. Nothing is held in memory, so several servers may share a folder. All methods
read or write the disk, so call them outside the event loop:
`await asyncio.to_thread(storage.read, ...)`.
"""

import fcntl
import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError

CLIENTS = 1000  # that may have records of a kind
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Kind(NamedTuple):
    """A kind of records.

    Attributes:
        name: Name of its folder, a plural.
        records: Largest number of records for a client; the oldest record with an error makes room
            for a new one.
        size: Largest size of a record in bytes.
        seconds: Time in seconds after which an unchanged record is removed; None = never.
    """

    name: str
    records: int
    size: int
    seconds: float | None = None


GLOSSARIES = Kind("glossaries", records=100, size=2**21)
SUGGESTIONS = Kind("suggestions", records=5000, size=2**16)
DOCUMENTS = Kind("documents", records=50, size=2**25, seconds=24 * 60 * 60)
KINDS = (GLOSSARIES, SUGGESTIONS, DOCUMENTS)


class Record(NamedTuple):
    """Bytes that are kept under an id, and facts about them.

    Attributes:
        created_at: Time of creation, by `time.time`.
        metadata: Facts about the content, as JSON values.
        content: Bytes; empty if only the metadata was read.
    """

    id: str
    created_at: float
    metadata: dict[str, Any]
    content: bytes = b""


# From a record to its new metadata and content.
Change = Callable[[Record], tuple[dict[str, Any], bytes]]


class UnknownRecordError(Seq2SeqError):
    """The client has no record with this id."""


class NoRoomError(ConfigError):
    """There is no room for another record."""


class Storage:
    """The records of all clients.

    Args:
        folder: Folder of the records; if it does not exist, it is made, and readable only for the
            server's own user.
    """

    def __init__(self, folder: Path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._lock = threading.Lock()

    def create(self, kind: Kind, client: str, metadata: dict[str, Any], content: bytes) -> Record:
        """Keep a new record. Raises: NoRoomError if there is no room for it."""
        folder = self._folder(kind, client)
        record = Record(str(uuid.uuid4()), time.time(), metadata, content)
        with self._lock:
            self._check_room(kind, folder)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            save_record(kind, folder / record.id, record)
        return record

    def update(self, kind: Kind, client: str, record_id: str, change: Change) -> Record:
        """Replace the metadata and content of a record by what `change` returns for it.

        Raises: ConfigError if the new record is too large; whatever `change` raises; others as for
            `read`.
        """
        with self._lock:
            path = self._find(kind, client, record_id)
            record = read_record(path)
            metadata, content = change(record)
            record = record._replace(metadata=metadata, content=content)
            save_record(kind, path, record)
        return record

    def read(self, kind: Kind, client: str, record_id: str) -> Record:
        """Read a record. Raises: UnknownRecordError if the client has no record with this id."""
        return read_record(self._find(kind, client, record_id))

    def delete(self, kind: Kind, client: str, record_id: str) -> None:
        """Delete a record; errors as for `read`."""
        with self._lock:
            remove_record(self._find(kind, client, record_id))

    def lock(self, kind: Kind, client: str, record_id: str) -> BinaryIO:
        """Lock a record, as long as this process lives and has the returned file open; errors as
        for `read`. The record can still be read and updated.
        """
        file = self._find(kind, client, record_id).open("rb")
        with suppress(OSError):  # the disk has no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def is_locked(self, kind: Kind, client: str, record_id: str) -> bool:
        """True if a process has locked a record, or might have because the disk has no locks."""
        try:
            with self._find(kind, client, record_id).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False

    def list_records(self, kind: Kind, client: str) -> list[Record]:
        """A client's records without their content, oldest first."""
        paths = record_paths(self._folder(kind, client))
        records = [read_record(path, limit=0) for path in paths if not has_expired(kind, path)]
        return sorted(records, key=lambda record: record.created_at)

    def list_all(self, kind: Kind) -> Iterator[Record]:
        """The records of all clients without their content, for the operator."""
        for path in record_paths(self.folder / kind.name, "*/*"):
            yield read_record(path, limit=0)

    def expire(self) -> None:
        """Remove expired records."""
        for kind in KINDS:
            for path in record_paths(self.folder / kind.name, "*/*") if kind.seconds else ():
                with self._lock:
                    if has_expired(kind, path):
                        remove_record(path)

    def _check_room(self, kind: Kind, folder: Path) -> None:
        if not folder.is_dir():
            count = sum(1 for _ in self.folder.glob(f"{kind.name}/*"))
            if count >= CLIENTS:
                raise NoRoomError(f"no room: {kind.name} of {count:,} clients are kept already")
        elif len(os.listdir(folder)) >= kind.records:
            records = [read_record(path, limit=0) for path in record_paths(folder)]
            failed = [each for each in records if each.metadata.get("status") == "error"]
            if not failed:
                raise NoRoomError(f"no room: you have {kind.records:,} {kind.name} already")
            oldest = min(failed, key=lambda record: record.created_at)
            remove_record(folder / oldest.id)

    def _folder(self, kind: Kind, client: str) -> Path:
        return self.folder / kind.name / client_digest(client)

    def _find(self, kind: Kind, client: str, record_id: str) -> Path:
        path = self._folder(kind, client) / record_id
        if not ID.fullmatch(record_id) or has_expired(kind, path):
            raise UnknownRecordError(f"{record_id[:50]!r} is not one of your {kind.name}")
        return path


def client_digest(client: str) -> str:
    """A digest that names a client's folders without revealing its key; logs and metrics show the
    first 12 characters.
    """
    return hashlib.sha256(client.encode()).hexdigest()


def record_paths(folder: Path, pattern: str = "*") -> list[Path]:
    """The files of records in a client's folder, except those being written; with the pattern
    `*/*`, those in the folder of a kind.
    """
    return sorted(path for path in folder.glob(pattern) if ID.fullmatch(path.name))


def has_expired(kind: Kind, path: Path) -> bool:
    """True if a record is too old, or does not exist."""
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return True
    return kind.seconds is not None and age > kind.seconds


def read_record(path: Path, limit: int = -1) -> Record:
    """Read a record with the first `limit` bytes of its content; -1 = all.

    Raises: DataError if the file is not a record; OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            head = json.loads(file.readline())
            return Record(path.name, head["created_at"], head["metadata"], file.read(limit))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: delete it ({error})") from None


def save_record(kind: Kind, path: Path, record: Record) -> None:
    """Write a record. Raises: ConfigError if it is too large; OSError if writing fails."""
    head = {"created_at": record.created_at, "metadata": record.metadata}
    line = json.dumps(head, ensure_ascii=False).encode() + b"\n"
    size = len(line) + len(record.content)
    if size > kind.size:
        raise ConfigError(f"this has {size:,} bytes; {kind.name} may have {kind.size:,} bytes each")
    with replacing(path) as file:
        file.write(line + record.content)


def remove_record(path: Path) -> None:
    """Remove a record, and the client's folder if this was the last one in it."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        path.parent.rmdir()

"""Zip archives in memory: what is in them is checked before any of it is unpacked."""

import io
import zipfile
import zlib
from collections.abc import Mapping

from seq2seq.base.errors import DataError

MAX_ENTRIES = 10_000
MAX_UNPACKED = 2**28  # bytes in all
MAX_RATIO = 100  # of the unpacked to the packed bytes, beside what any file may have
FREE = 2**24  # bytes to which no ratio applies
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_archive(data: bytes) -> dict[str, bytes]:
    """The files in an archive by name, in their order.

    Raises: DataError if it is damaged, or none of an office program.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_entries(archive.infolist(), len(data))
            return {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except DAMAGED as error:
        raise DataError(f"it is no zip archive, or a damaged one: {error}") from None


def check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Check what an archive says of its entries; no more is unpacked than that.

    Args:
        size: of the archive in bytes.

    Raises: DataError.
    """
    if len(entries) > MAX_ENTRIES:
        raise DataError(f"{len(entries):,} files are in it; at most {MAX_ENTRIES:,} are read")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > min(MAX_UNPACKED, FREE + MAX_RATIO * size):
        raise DataError(f"its {size:,} bytes unpack to {unpacked:,}, which is too much")
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name in names:
            raise DataError(f"{name[:80]!r} is in it twice")
        names.add(name)
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name:
            raise DataError(f"{name[:80]!r} in it is a path out of the archive")
        if entry.flag_bits & 1:
            raise DataError("it is encrypted: save it without a password")
        if entry.compress_type not in METHODS:
            raise DataError(f"{name[:80]!r} in it is compressed in an unusual way")


def replace_entries(data: bytes, changes: Mapping[str, bytes]) -> bytes:
    """An archive with other files of some names, all else as it was, in the same order; itself if
    nothing changes.
    """
    output = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as archive,
        zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        if all(archive.read(name) == new for name, new in changes.items()):
            return data
        written.comment = archive.comment
        for entry in archive.infolist():
            name = entry.filename
            written.writestr(entry, changes[name] if name in changes else archive.read(entry))
    return output.getvalue()

"""Archives of files (.docx, .odt, .epub, ...): checked, read, and written with other contents."""

import io
import stat
import zipfile
import zlib
from collections.abc import Mapping

from seq2seq.base.errors import DataError

# Limits for an archive, checked before anything is unpacked.
MAX_ENTRIES = 10_000
MAX_UNPACKED = 2**28  # total bytes
MAX_RATIO = 100  # of unpacked to packed bytes, beyond the allowance below
FREE = 2**24  # bytes that any archive may unpack to
Archive = Mapping[str, bytes]  # the contents of files, by name
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
SUFFIXES = {".docx", ".epub", ".odp", ".odt", ".pptx", ".xlsx"}  # of the formats that are archives
# First bytes of a compound file: an old format, or a new one that is protected by a password.
COMPOUND = b"\xd0\xcf\x11\xe0"


def read_archive(data: bytes) -> dict[str, bytes]:
    """The files in an archive, by name and in order.

    Raises: DataError if the archive is damaged, or unlike those that office programs write.
    """
    if data.startswith(COMPOUND):
        raise DataError("it has a password or an old format: save it without, in the new format")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_entries(archive.infolist(), len(data))
            return {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except DAMAGED as error:
        raise DataError(f"it is not a zip archive, or is damaged: {error}") from None


def check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Check the directory of an archive before anything is unpacked.

    Args:
        size: size of the archive in bytes.

    Raises: DataError if the archive is too large, unsafe, encrypted or unusual.
    """
    if len(entries) > MAX_ENTRIES:
        raise DataError(f"it contains {len(entries):,} files; at most {MAX_ENTRIES:,} are allowed")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > min(MAX_UNPACKED, FREE + MAX_RATIO * size):
        raise DataError(f"its {size:,} bytes unpack to {unpacked:,}, which is too many")
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name in names:
            raise DataError(f"it contains {name[:80]!r} twice")
        names.add(name)
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name:
            raise DataError(f"its path {name[:80]!r} leads out of the archive")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise DataError(f"its file {name[:80]!r} is a link to another file")
        if entry.flag_bits & 1:
            raise DataError("it is encrypted: save it without a password")
        if entry.compress_type not in METHODS:
            raise DataError(f"its file {name[:80]!r} is compressed by an unusual method")


def check_type(archive: Archive, expected: str) -> None:
    """Check the type that an archive declares. Raises: DataError if it is not the expected one."""
    declared = archive.get("mimetype", expected.encode()).strip()
    if declared != expected.encode():
        raise DataError(f"its type is {declared[:80].decode('latin-1')!r}, not {expected!r}")


def replace_entries(data: bytes, changes: Archive) -> bytes:
    """Replace files in an archive. If no file changes, the data is returned unchanged."""
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

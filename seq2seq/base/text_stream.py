"""Read the bytes of a text: decompress gzip on the fly, and refuse what is clearly not UTF-8.

The first bytes decide, not the file name. Nothing is read ahead, so that the lines of a pipe can be
answered one by one.
"""

import gzip
import io
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol, cast

from seq2seq.base.errors import DataError

GZIP = b"\x1f\x8b"
BLOCK = 2**16
HEAD = 16  # number of bytes that distinguish the formats below

# First bytes of other formats, their names, and the commands that turn them into text.
OTHERS = (
    (rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff", "UTF-32", "iconv -f UTF-32 -t UTF-8 OLD > NEW"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 OLD > NEW"),
    (rb"PK(\x03\x04|\x05\x06)", "a zip archive or a model", "unzip -p OLD > NEW unpacks a zip"),
    (rb"BZh[1-9]1AY&SY", "bzip2", "bzip2 -dc OLD > NEW"),
    (rb"\xfd7zXZ\x00", "xz", "xz -dc OLD > NEW"),
    (rb"\x28\xb5\x2f\xfd", "Zstandard", "zstd -dc OLD > NEW"),
    (rb"\x04\x22\x4d\x18", "LZ4", "lz4 -dc OLD > NEW"),
    (rb"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x -so OLD > NEW"),
    (rb"%PDF-", "PDF", "pdftotext OLD NEW"),
    (GZIP, "gzip inside gzip", "zcat OLD > NEW"),
)


class Readable(Protocol):
    """A binary stream, such as an open file or standard input."""

    def fileno(self) -> int: ...
    def isatty(self) -> bool: ...
    def read1(self, size: int, /) -> bytes: ...


class TextBytes(io.RawIOBase):
    """The bytes of a text in a stream, plain or gzip.

    Args:
        stream: the stream to read; it is left open.
        name: name of the stream, for messages.

    Reading raises: DataError if the data is not text, or is damaged or truncated gzip.
    """

    def __init__(self, stream: Readable, name: str):
        self._stream, self._name = stream, name
        self._text: PutBack | None = None  # None before the first bytes are read
        self._packed = False

    @property
    def packed(self) -> bool:
        """True if the stream is gzip. Reads the first bytes."""
        self.read1(0)
        return self._packed

    @property
    def pending(self) -> bool:
        """True if more text is available without reading from the stream."""
        return self._text is not None and bool(self._text.head)

    def read1(self, size: int, /) -> bytes:
        """Up to `size` bytes, as soon as at least one is available; empty at the end."""
        try:
            if self._text is None:
                text = PutBack(self._stream.read1)
                self._packed = bool(text.head) and GZIP.startswith(text.head[:2])
                if self._packed:
                    text = PutBack(gzip.GzipFile(fileobj=cast(IO[bytes], text)).read1)
                if problem := recognize_format(text.head):
                    raise DataError(f"{self._name} is not UTF-8 text: it {problem}")
                self._text = text
            return self._text.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"{self._name} is not a whole gzip file: {error}. Copy or download it again; "
                "gzip -t FILE tests it."
            ) from error

    def readinto(self, buffer: Any) -> int:
        data = self.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True


class PutBack:
    """A stream whose first bytes can be inspected before they are read: a line, enough bytes to
    recognize a format, or the whole stream.
    """

    def __init__(self, read1: Callable[[int], bytes]):
        self._read1 = read1
        self.head = b""
        while len(self.head) < HEAD and b"\n" not in self.head and (more := read1(BLOCK)):
            self.head += more

    def read(self, size: int, /) -> bytes:
        if not self.head:
            return self._read1(size)
        taken, self.head = self.head[:size], self.head[size:]
        return taken


def recognize_format(head: bytes) -> str | None:
    """The name of the non-text format that the first bytes indicate, and what to do; None for text.

    Like other control characters, NULs may occur in text, but not more often than lines, nor
    together with invalid UTF-8.
    """
    for begin, what, mend in OTHERS:
        if re.match(begin, head):
            return f"looks like {what}: {mend}"
    count, even = head.count(0), head[::2].count(0)
    if not count or (count <= head.count(b"\n") + 1 and is_utf8(head)):
        return None
    if even in (0, count) and len(head) <= 8 * count <= 4 * len(head) + 4:
        form = "UTF-16BE" if even else "UTF-16LE"
        return f"looks like UTF-16 without a mark: iconv -f {form} -t UTF-8 OLD > NEW"
    return "holds NUL bytes, as programs, pictures and UTF-32 do"


def is_utf8(head: bytes) -> bool:
    """True if UTF-8 text can begin with these bytes. The last character may be incomplete."""
    for cut in range(4):
        with suppress(UnicodeDecodeError):
            head[: len(head) - cut].decode()
            return True
    return False


def without_marks(text: str) -> str:
    """Remove byte order marks, which occur inside a text where files were joined. U+FEFF has no
    other use since Unicode 3.2, and would change the word it is attached to.
    """
    return text.replace("\ufeff", "")


def check_text(path: Path) -> None:
    """Refuse a file that is not text; pipes are not read. Raises: DataError if it is not text."""
    if path.is_file():
        with path.open("rb") as file:
            TextBytes(file, str(path)).read1(1)

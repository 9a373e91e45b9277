"""The bytes of a text: decompresses gzip on the fly, and refuses what is clearly not UTF-8.

The first bytes decide, not the name. Nothing is read ahead, so that lines of a pipe can be answered
one by one.
"""

import io
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from seq2seq.errors import DataError

GZIP = b"\x1f\x8b"
GZIP_WINDOW = 31  # for zlib: with the header and checksum of gzip
BLOCK = 2**16
HEAD = 16  # bytes that are enough to tell the formats below apart

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
        stream: is left open.
        name: of the stream, for messages.

    Reading raises: DataError for a format that is not text, and for gzip that is damaged or cut.
    """

    def __init__(self, stream: Readable, name: str):
        self._stream, self._name = stream, name
        self._unpacks: Any = None  # zlib's, for one member of the file; None for plain text
        self._ahead: bytes | None = None  # the first bytes, already read; None before that
        self._packed = b""

    @property
    def packed(self) -> bool:
        """Is it gzip? Reads the first bytes."""
        self._begin()
        return self._unpacks is not None

    @property
    def pending(self) -> bool:
        """Can more be had without reading from the stream?"""
        return bool(self._ahead or self._packed)

    def read1(self, size: int, /) -> bytes:
        """Up to `size` bytes, as soon as there is one; none at the end."""
        self._begin()
        if self._ahead:
            taken, self._ahead = self._ahead[:size], self._ahead[size:]
            return taken
        return self._stream.read1(size) if self._unpacks is None else self._unpack(size)

    def readinto(self, buffer: Any) -> int:
        data = self.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def _begin(self) -> None:
        if self._ahead is not None:
            return
        head = first_bytes(self._stream.read1)
        if head and GZIP.startswith(head[:2]):
            self._unpacks, self._packed = zlib.decompressobj(GZIP_WINDOW), head
            head = first_bytes(self._unpack)
        if problem := recognize_format(head):
            raise DataError(f"{self._name} is not UTF-8 text: it {problem}")
        self._ahead = head

    def _unpack(self, size: int) -> bytes:
        try:
            while True:
                if self._unpacks.eof and not self._next_member():
                    return b""
                packed = self._packed or self._stream.read1(BLOCK)
                if not packed:
                    raise EOFError("it ends too early")
                data: bytes = self._unpacks.decompress(packed, size)
                self._packed = self._unpacks.unconsumed_tail
                if data:
                    return data
        except (EOFError, zlib.error) as error:
            raise DataError(
                f"{self._name} is not a whole gzip file: {error}. Copy or download it again; "
                "gzip -t FILE tests it."
            ) from error

    def _next_member(self) -> bool:
        """Start the next member of a file of several, if there is one."""
        rest = self._unpacks.unused_data.lstrip(b"\0")  # tapes are padded with zeros
        while not rest and (more := self._stream.read1(BLOCK)):
            rest = more.lstrip(b"\0")
        if rest:
            self._unpacks, self._packed = zlib.decompressobj(GZIP_WINDOW), rest
        return bool(rest)


def first_bytes(read1: Callable[[int], bytes]) -> bytes:
    """The first bytes: a line, or enough to recognise a format, or all there are."""
    head = b""
    while len(head) < HEAD and b"\n" not in head and (more := read1(BLOCK)):
        head += more
    return head


def recognize_format(head: bytes) -> str | None:
    """The other format that the first bytes are of, and what to do; None for text.

    Text may contain a few NULs, as it may contain other control characters; but not more NULs than
    lines, nor NULs beside invalid UTF-8.
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
    """Can UTF-8 text begin with these bytes? The last character may be cut."""
    for cut in range(4):
        with suppress(UnicodeDecodeError):
            head[: len(head) - cut].decode()
            return True
    return False


def without_marks(text: str) -> str:
    """A text without byte order marks, which occur inside it where files were joined. U+FEFF has no
    other use since Unicode 3.2, and would change the word it is attached to.
    """
    return text.replace("\ufeff", "")


def check_text(path: Path) -> None:
    """Raises: DataError if a file is clearly not text. A pipe is left alone."""
    if path.is_file():
        with path.open("rb") as file:
            TextBytes(file, str(path)).read1(1)

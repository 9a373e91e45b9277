"""Read the lines of a stream, without losing or adding any."""

import os
import select
import stat
import time
import warnings
from collections.abc import Iterator

from seq2seq.base.text_stream import BLOCK, Readable, TextBytes
from seq2seq.data.text.lines import strip_line_end

# Maximum bytes of a line, ending included: the pieces of a longer one would fill the memory.
LONGEST_INPUT_LINE = 2**20
PATIENCE = 0.05  # seconds that lines may wait for others to fill a batch


class InputLines:
    """The lines of a stream without their endings, read as they are needed.

    A line ends with LF or CR LF. Gzip is decompressed. Invalid UTF-8 becomes U+FFFD, with a warning
    that names line and byte. A line of 1 MiB or more becomes None.

    Args:
        name: name of the stream, for messages.
        place: words before the number of a line in messages.

    Iterating raises: DataError for input that is clearly not text, and for damaged gzip.
    """

    def __init__(self, stream: Readable, name: str = "standard input", place: str = "line"):
        self._stream = stream
        self._text = TextBytes(stream, name)
        self._place = place
        self._rest = b""  # bytes that were read, but not yielded yet
        self._patience = PATIENCE
        self.bytes = 0  # bytes of the lines that were yielded

    def __iter__(self) -> Iterator[str | None]:
        for line_no, raw in enumerate(iter(self._line, b""), start=1):
            if len(raw) >= LONGEST_INPUT_LINE and raw[-1:] != b"\n":
                while (rest := self._line()) and rest[-1:] != b"\n":
                    pass
                yield None
            else:
                yield strip_line_end(decode_leniently(raw, f"{self._place} {line_no}"))

    def ready(self) -> bool:
        """True if another line, or the end, can be read soon.

        Waits for the writer for at most `PATIENCE` seconds in all.
        """
        if b"\n" in self._rest or self._text.pending:
            return True
        began = time.monotonic()
        try:
            ready = bool(select.select([self._stream], [], [], self._patience)[0])
        except (OSError, ValueError):  # select knows no such stream, as on Windows or in a test
            return not self._stream.isatty()
        waited = time.monotonic() - began
        self._patience = max(0.0, self._patience - waited) if ready else PATIENCE
        return ready

    @property
    def size(self) -> int | None:
        """Bytes of the whole stream; None if unknown, as of a pipe or gzip."""
        try:
            status = os.fstat(self._stream.fileno())
        except (OSError, ValueError):
            return None
        known = stat.S_ISREG(status.st_mode) and not self._text.packed
        return status.st_size if known else None

    def _line(self) -> bytes:
        """The next line, or the first LONGEST_INPUT_LINE bytes of it; nothing at the end."""
        line = bytearray()
        while (room := LONGEST_INPUT_LINE - len(line)) and not line.endswith(b"\n"):
            # A single system call, which returns as soon as any bytes are available.
            self._rest = self._rest or self._text.read1(BLOCK)
            if not self._rest:
                break
            taken = self._rest.find(b"\n", 0, room) + 1 or room
            line += self._rest[:taken]
            self._rest = self._rest[taken:]
        self.bytes += len(line)
        return bytes(line)


def decode_leniently(raw: bytes, where: str) -> str:
    """Decode UTF-8; U+FFFD replaces invalid bytes, with a warning that says where they are."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        warnings.warn(
            f"{where}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8 "
            f"({error.reason}); U+FFFD replaces it",
            stacklevel=3,
        )
        return raw.decode("utf-8", errors="replace")


def as_utf8(text: str, where: str) -> str:
    """Decode a word of the command line leniently; Python keeps invalid bytes as surrogates."""
    return decode_leniently(text.encode(errors="surrogateescape"), where)

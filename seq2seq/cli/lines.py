"""Lines from standard input and to standard output, of which none may be lost or added."""

import warnings
from collections.abc import Iterator
from typing import BinaryIO

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Bytes of a line and its ending at most: the pieces of a longer one would fill the memory.
LONGEST_INPUT_LINE = 2**20


def read_input_lines(stream: BinaryIO) -> Iterator[str | None]:
    """The lines of a stream without their endings, read as they are needed.

    A line ends at LF alone, and a CR just before that belongs to the ending. A byte order mark at
    the start is dropped. Broken UTF-8 becomes U+FFFD, with a warning that names line and byte. In
    place of a line of 1 MiB or more stands None, with a warning; the rest of it is not kept.
    """
    number = 0
    while raw := stream.readline(LONGEST_INPUT_LINE):
        number += 1
        if len(raw) == LONGEST_INPUT_LINE and raw[-1:] != b"\n":
            _skip_line(stream)
            warnings.warn(
                f"line {number} has {LONGEST_INPUT_LINE:,} bytes or more and is not translated: "
                "is there one sentence a line?",
                stacklevel=2,
            )
            yield None
            continue
        mark = len(BYTE_ORDER_MARK) if number == 1 and raw.startswith(BYTE_ORDER_MARK) else 0
        text = _decode(raw[mark:], number, mark)
        yield text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(LONGEST_INPUT_LINE)) and rest[-1:] != b"\n":
        pass


def _decode(raw: bytes, number: int, offset: int) -> str:
    """The text of a line of that number, of which the first `offset` bytes were taken away."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        warnings.warn(
            f"line {number}, byte {offset + error.start + 1}: 0x{raw[error.start]:02x} is not "
            f"UTF-8 ({error.reason}); U+FFFD stands for what is broken",
            stacklevel=3,
        )
        return raw.decode("utf-8", errors="replace")


def one_line(text: str) -> str:
    """A translation never makes two lines out of one."""
    return text.replace("\r", " ").replace("\n", " ")

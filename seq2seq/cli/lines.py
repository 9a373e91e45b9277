"""Lines from standard input and to standard output, of which none may be lost or added."""

import argparse
import json
import os
import select
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from seq2seq.data.text import without_end
from seq2seq.environment import uninterrupted
from seq2seq.symbols import EOS, NAMES
from seq2seq.unpacked import BLOCK, Readable, TextBytes

if TYPE_CHECKING:
    from seq2seq.data.tokenizer import Tokenizer
    from seq2seq.text_stream import Translation

# Bytes of a line and its ending at most: the pieces of a longer one would fill the memory.
LONGEST_INPUT_LINE = 2**20
PATIENCE = 0.05  # seconds that lines may wait for more to share their batch


class InputLines:
    """The lines of a stream without their endings, read as they are needed.

    A line ends at LF alone, and a CR just before that belongs to the ending. Gzip is unpacked.
    Broken UTF-8 becomes U+FFFD, with a warning that names line and byte. In place of a line of 1
    MiB or more stands None, with a warning; the rest of it is not kept.

    Args:
        name: of the stream, for messages.

    Reading raises: DataError for what is clearly no text, and for damaged gzip.
    """

    def __init__(self, stream: Readable, name: str = "standard input"):
        self._stream = stream
        self._text = TextBytes(stream, name)
        self._rest = b""  # was read, and not asked for yet
        self._patience = PATIENCE
        self.bytes = 0  # of the lines that were asked for

    def __iter__(self) -> Iterator[str | None]:
        number = 0
        while raw := self._line():
            number += 1
            if len(raw) >= LONGEST_INPUT_LINE and raw[-1:] != b"\n":
                self._skip()
                warnings.warn(
                    f"line {number} has {LONGEST_INPUT_LINE:,} bytes or more and is not "
                    "translated: is there one sentence a line?",
                    stacklevel=2,
                )
                yield None
                continue
            yield without_end(_decode(raw, number))

    def ready(self) -> bool:
        """Is there another line, or the end, without waiting long for whoever writes it?

        Between two answers of no, the waiting together is at most `PATIENCE`.
        """
        if b"\n" in self._rest or self._text.pending:
            return True
        began = time.monotonic()
        try:
            ready = bool(select.select([self._stream], [], [], self._patience)[0])
        except (OSError, ValueError):  # no file of the system's, as in Windows or a test
            return not self._stream.isatty()
        waited = time.monotonic() - began
        self._patience = max(0.0, self._patience - waited) if ready else PATIENCE
        return ready

    @property
    def size(self) -> int | None:
        """Bytes of the whole; None for what has no known size, as a pipe has none, nor gzip."""
        try:
            found = os.fstat(self._stream.fileno())
        except (OSError, ValueError):
            return None
        known = stat.S_ISREG(found.st_mode) and not self._text.packed
        return found.st_size if known else None

    def _line(self) -> bytes:
        """The next line, or the first LONGEST_INPUT_LINE bytes of it; nothing at the end."""
        pieces = []
        size = 0
        while True:
            end = self._rest.find(b"\n", 0, LONGEST_INPUT_LINE - size) + 1
            taken = end or LONGEST_INPUT_LINE - size
            piece, self._rest = self._rest[:taken], self._rest[taken:]
            pieces.append(piece)
            size += len(piece)
            if end or size == LONGEST_INPUT_LINE:
                break
            # One read of the system's: it does not wait until there is so much.
            self._rest = self._text.read1(BLOCK)
            if not self._rest:
                break
        self.bytes += size
        return b"".join(pieces)

    def _skip(self) -> None:
        while (rest := self._line()) and rest[-1:] != b"\n":
            pass


def _decode(raw: bytes, number: int) -> str:
    """The text of a line of that number."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        warnings.warn(
            f"line {number}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8 "
            f"({error.reason}); U+FFFD stands for what is broken",
            stacklevel=3,
        )
        return raw.decode("utf-8", errors="replace")


def write_line(text: str, stream: TextIO) -> None:
    """Write a line at once, since whoever reads may be waiting for just this one, and whole."""
    with uninterrupted():
        stream.write(f"{text}\n")
        stream.flush()


# The number of a text and its translations, best first, or None -> lines.
Format = Callable[[int, "list[Translation] | None"], list[str]]


def format_of(arguments: argparse.Namespace, target: "Tokenizer") -> Format:
    """How `--json` and `--nbest` want translations to be written."""
    if arguments.json:
        return partial(as_json, nbest=arguments.nbest, labels=target.texts())
    return partial(as_table, nbest=arguments.nbest) if arguments.nbest else as_text


def as_text(number: int, found: "list[Translation] | None") -> list[str]:
    """The best translation, nothing else; an empty line if there is none."""
    return [one_line(found[0].text) if found else ""]


def as_table(number: int, found: "list[Translation] | None", *, nbest: int) -> list[str]:
    """Number, score and text of several translations, separated by tabs."""
    return [f"{number}\t{f.score:.4f}\t{one_line(f.text)}" for f in (found or [])[:nbest]]


def as_json(
    number: int, found: "list[Translation] | None", *, nbest: int | None, labels: list[str]
) -> list[str]:
    """An object for each translation.

    Without `nbest` there is one for each text, with null where there is nothing to say.

    Args:
        labels: what each piece adds to a text.
    """
    if not found:
        text = None if found is None else ""
        nothing: dict[str, Any]
        nothing = {"line": number, "text": text, "score": None, "confidence": None}
        nothing |= {"truncated": None, "tokens": None}
        return [] if nbest else [json.dumps(nothing)]
    return [
        json.dumps(described(number, f, labels), ensure_ascii=False) for f in found[: nbest or 1]
    ]


def described(number: int, found: "Translation", labels: list[str]) -> dict[str, Any]:
    pieces = [NAMES[EOS] if i == EOS else labels[i] for i in found.ids]
    return {
        "line": number,
        "text": found.text,
        "score": found.score,
        "confidence": found.confidence,
        "truncated": found.truncated,
        "tokens": list(zip(pieces, found.token_logp, strict=True)),
    }


def one_line(text: str) -> str:
    """A translation never makes two lines out of one."""
    return text.replace("\r", " ").replace("\n", " ")

"""The native decoder: C, where there is a compiler, with the numbers of torch. See native.h."""

import os
from ctypes import CDLL
from functools import cache

from seq2seq.decoding.native import build
from seq2seq.decoding.native.build import UnavailableError
from seq2seq.decoding.native.layout import open_library


def load_library() -> CDLL:
    """The functions of the native decoder, compiled if need be. Raises: UnavailableError."""
    found = "SEQ2SEQ_NATIVE=0" if os.environ.get("SEQ2SEQ_NATIVE") == "0" else load_once()
    if isinstance(found, str):
        raise UnavailableError(found)
    return found


@cache
def load_once() -> CDLL | str:
    """The library, or the reason why there is none. A missing compiler is looked for only once."""
    try:
        path = build.build()
        try:
            return open_library(str(path))
        except (OSError, AttributeError):  # it is not what was tested, whatever its name says
            path.unlink(missing_ok=True)
            return open_library(str(build.build()))
    except (UnavailableError, OSError, AttributeError) as error:
        return str(error)


def unavailable_reason() -> str | None:
    """The reason why torch decodes in its place; None if the native decoder is available."""
    try:
        load_library()
    except UnavailableError as error:
        return str(error)
    return None

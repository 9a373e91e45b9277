"""The native decoder: C code that computes the same numbers as torch. See csrc/native.h."""

import os
from ctypes import CDLL
from functools import cache

from seq2seq.decoding.native import build
from seq2seq.decoding.native.build import UnavailableError
from seq2seq.decoding.native.layout import open_library


def load_library() -> CDLL:
    """The library of the native decoder, compiled if necessary.

    Raises: UnavailableError if it is disabled or cannot be built.
    """
    found = "SEQ2SEQ_NATIVE=0" if os.environ.get("SEQ2SEQ_NATIVE") == "0" else load_once()
    if isinstance(found, str):
        raise UnavailableError(found)
    return found


@cache
def load_once() -> CDLL | str:
    """The library, or the reason why it is unavailable. Looks for a compiler only once."""
    try:
        path = build.build_library()
        try:
            return open_library(str(path))
        except (OSError, AttributeError):  # damaged, although its name was right
            path.unlink(missing_ok=True)
            return open_library(str(build.build_library()))
    except (UnavailableError, OSError, AttributeError) as error:
        return str(error)


def unavailable_reason() -> str | None:
    """The reason why the native decoder is unavailable; None if it is available."""
    try:
        load_library()
    except UnavailableError as error:
        return str(error)
    return None

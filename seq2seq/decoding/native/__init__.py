"""Decoding in C where the system has a compiler, with the same numbers as torch's: see native.h."""

import os
from ctypes import CDLL
from functools import cache

from seq2seq.decoding.native import build
from seq2seq.decoding.native.layout import parse_struct
from seq2seq.errors import Seq2SeqError


def functions() -> CDLL | None:
    """The functions of the C, compiled if need be; None if there are none here."""
    loaded = functions_or_why_not()
    return None if isinstance(loaded, str) else loaded


def why_not() -> str | None:
    """Why torch does the work of the C; None = it does not."""
    loaded = functions_or_why_not()
    return loaded if isinstance(loaded, str) else None


def is_required() -> CDLL:
    """The functions of the C, in a process that was given a model which needs them."""
    loaded = functions_or_why_not()
    if isinstance(loaded, str):
        raise Seq2SeqError(f"a worker process cannot use the C of its parent: {loaded}")
    return loaded


def functions_or_why_not() -> CDLL | str:
    return "SEQ2SEQ_NATIVE=0" if os.environ.get("SEQ2SEQ_NATIVE") == "0" else load_library()


@cache
def load_library() -> CDLL | str:
    """The library, compiled if need be; or why there is none."""
    try:
        path = build.build()
        try:
            return parse_struct(CDLL(str(path)))
        except (OSError, AttributeError):  # it is not what was tested, whatever its name says
            path.unlink(missing_ok=True)
            return parse_struct(CDLL(str(build.build())))
    except (build.UnavailableError, OSError, AttributeError) as error:
        return str(error)

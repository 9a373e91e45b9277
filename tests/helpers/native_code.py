"""Tests of the native decoder are skipped where nothing can compile it, never where it is wrong."""

import os

import pytest

from seq2seq.decoding.native import build
from seq2seq.decoding.native.build import UnavailableError


def why_absent() -> str | None:
    """The reason why there is no native code on this machine; None where it can be built.

    A library that does not compile, or fails its self-test, is no reason: its tests then fail.
    """
    if os.environ.get("SEQ2SEQ_NATIVE") == "0":
        return "SEQ2SEQ_NATIVE=0"
    try:
        build.find_origin()
    except UnavailableError as error:
        return str(error)
    return None


needs_native = pytest.mark.skipif(
    why_absent() is not None, reason=f"no native code: {why_absent()}"
)

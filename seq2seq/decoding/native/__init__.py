"""Decoding in C where the system has a compiler, with the same numbers as torch's: see native.h."""

import os
from ctypes import CDLL
from functools import cache

import torch

from seq2seq.decoding.native.build import found
from seq2seq.decoding.native.layout import declared
from seq2seq.decoding.native.linear import Packed
from seq2seq.errors import Seq2SeqError
from seq2seq.functional.int8 import quantize_rows


def functions() -> CDLL | None:
    """The functions of the C, compiled if need be; None if there are none here."""
    loaded = functions_or_why_not()
    return None if isinstance(loaded, str) else loaded


def why_not() -> str | None:
    """Why torch does the work of the C; None = it does not."""
    loaded = functions_or_why_not()
    return loaded if isinstance(loaded, str) else None


def required() -> CDLL:
    """The functions of the C, in a process that was given a model which needs them."""
    loaded = functions_or_why_not()
    if isinstance(loaded, str):
        raise Seq2SeqError(f"a worker process cannot use the C of its parent: {loaded}")
    return loaded


def functions_or_why_not() -> CDLL | str:
    return "SEQ2SEQ_NATIVE=0" if os.environ.get("SEQ2SEQ_NATIVE") == "0" else tested()


@cache
def tested() -> CDLL | str:
    """What was found, if its products are those of torch."""
    library = found()
    if isinstance(library, str):
        return library
    loaded = declared(library)
    return loaded if is_right(loaded) else "its products are not those of torch"


def is_right(functions: CDLL) -> bool:
    """Are products right, those of integers at the extremes too?"""
    ramp = torch.arange(5 * 77.0).view(5, 77).sin()
    x, weight = torch.cat((ramp, ramp.sign())), torch.cat((ramp.cos(), -ramp.sign()))
    floats = Packed.of(functions, weight, None, int8=False).product(x)
    integers = Packed.of(functions, weight, None, int8=True).product(x)
    (rows, scales), (columns, of_columns) = quantize_rows(x), quantize_rows(weight)
    exact = (rows.double() @ columns.double().t()) * scales * of_columns.t()
    return bool(
        torch.allclose(floats, x @ weight.t(), atol=1e-5)
        and torch.allclose(integers, exact.float(), atol=1e-6)
    )

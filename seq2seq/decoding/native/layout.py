"""The structures of the C, see native.h, and the functions that take them."""

import ctypes
import threading
from collections.abc import Callable
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor

TYPES = {"int32": c_int32, "int64": c_int64, "float": c_float, "pointer": c_void_p}


def fields(*declarations: str) -> list[tuple[str, Any]]:
    """Fields declared as in C, except that all pointers are of one type."""
    each = (line.split() for line in declarations)
    return [(name, TYPES[kind]) for kind, *names in each for name in names]


class Linear(Structure):
    _fields_ = fields("int32 inputs outputs is_int8", "pointer packed scales sums bias")


class Best(Structure):
    _fields_ = fields(
        "int64 count",
        "pointer never",
        "int64 nevers eos",
        "pointer unending values ids",
        "pointer largest sums",
    )


class After(Structure):
    _fields_ = fields("int32 activation", "pointer gate added best")


class Norm(Structure):
    _fields_ = fields("int32 kind", "float epsilon", "pointer weight bias")


class Attention(Structure):
    # A name that ends in _ is another word in C: `in` and `from` are Python's.
    _fields_ = [
        *(("in_", Linear), ("out", Linear), ("norm", Norm)),
        *fields("int32 heads groups width", "float scale", "pointer turns bias"),
        *fields("int64 bias_stride"),
    ]


class Feed(Structure):
    _fields_ = [
        *(("up", Linear), ("gate", Linear), ("down", Linear), ("norm", Norm)),
        *fields("int32 activation"),
    ]


class Memory(Structure):
    _fields_ = fields("pointer keys values", "int64 rows row_stride group_stride slot_stride")


class Readable(Structure):
    _fields_ = fields("int64 lines columns", "pointer mask slots", "int64 slots_stride")


class Layer(Structure):
    _fields_ = [("own", Attention), ("cross", Attention), ("feed", Feed)]


class Stack(Structure):
    _fields_ = [
        *fields("int32 dim layers is_pre"),
        *(("layer", POINTER(Layer)), ("last", Norm)),
        *fields("pointer words", "float words_scale", "pointer places"),
    ]


class Step(Structure):
    _fields_ = [
        *fields("int64 rows", "pointer tokens positions", "int64 positions_step"),
        *(("own", Readable), ("source", Readable)),
        *(("pasts", POINTER(Memory)), ("sources", POINTER(Memory))),
    ]


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class Work(threading.local):
    """The scratch memory of a thread, for all models."""

    size, address = 0, 0

    def run(self, function: Callable[..., int], *arguments: Any) -> None:
        """Call a function that takes scratch memory and its size, and does nothing but return the
        bytes that it needs if they are too few.
        """
        needed = function(*arguments, self.address, self.size)
        if needed > self.size:
            self.held = torch.empty(2 * needed + 64, dtype=torch.uint8)
            self.size, self.address = 2 * needed, (self.held.data_ptr() + 63) // 64 * 64
            function(*arguments, self.address, self.size)


WORK = Work()


class Functions:
    """What the library does, typed."""

    def __init__(self, library: ctypes.CDLL):
        def function(name: str, *types: Any) -> Callable[..., int]:
            found = getattr(library, name)
            found.restype, found.argtypes = integer, types
            called: Callable[..., int] = found
            return called

        pointer, integer, linear, stack = c_void_p, c_int64, POINTER(Linear), POINTER(Stack)
        self.columns = function("panel_columns")()
        self.pack_floats = function("pack_floats", pointer, integer, integer, pointer)
        self.pack_integers = function("pack_integers", pointer, integer, integer, pointer, pointer)
        work = pointer, integer
        self.outputs = function("outputs", linear, pointer, integer, pointer, *work)
        self.best_outputs = function("best_outputs", linear, pointer, integer, POINTER(Best), *work)
        self.decode = function("decode", stack, POINTER(Step), pointer, *work)
        self.encode = function(
            "encode", stack, integer, pointer, integer, integer, *(pointer,) * 3, *work
        )

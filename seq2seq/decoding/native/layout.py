"""The structures and functions of the C, as its own text declares them."""

import re
import threading
from collections.abc import Callable
from ctypes import CDLL, POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from keyword import iskeyword
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from seq2seq.decoding.native.build import SOURCES
from seq2seq.errors import DataError

HEADERS_FIRST = sorted(SOURCES.glob("*.[ch]"), key=lambda path: path.suffix, reverse=True)
TEXT = "".join(path.read_text(encoding="utf-8") for path in HEADERS_FIRST)
TEXT = re.sub(r"/\*.*?\*/", "", TEXT, flags=re.DOTALL)
NUMBERS = {"float": c_float, "int": c_int32, "int32_t": c_int32, "int64_t": c_int64}
structs = SimpleNamespace()  # structs.step is the `step` of the C


def struct_fields(declaration: str) -> list[tuple[str, Any]]:
    """Names and types in a line such as `const float *x, *y`. All pointers to numbers are of one
    type. A name that is a word of Python gets a _ at its end.
    """
    kind, names = declaration.replace("const ", "").strip().split(maxsplit=1)
    struct = getattr(structs, kind, None)
    pointer = POINTER(struct) if struct else c_void_p
    types = NUMBERS.get(kind, struct), pointer, POINTER(c_void_p)
    found = ((each.strip(" *"), types[each.count("*")]) for each in names.split(","))
    return [(name + "_" * iskeyword(name), kind) for name, kind in found]


for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", TEXT, re.DOTALL):
    members = [field for line in body.split(";")[:-1] for field in struct_fields(line)]
    setattr(structs, name, type(name, (Structure,), {"_fields_": members}))


def parse_struct(library: CDLL) -> CDLL:
    """The library, whose functions know their types."""
    for result, name, parameters in re.findall(r"^(\w+) (\w+)\(([^)]*)\) \{", TEXT, re.MULTILINE):
        function = getattr(library, name)
        function.restype = NUMBERS.get(result)
        types = [] if parameters == "void" else map(struct_fields, parameters.split(","))
        function.argtypes = [kind for ((_, kind),) in types]
    return library


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def check_step(indices: Tensor, rows: int, name: str) -> None:
    """Raises: DataError if an index is no row of a table: the C reads what it is told."""
    values = indices.flatten().tolist()  # quick for the few ids of a step
    if values and not 0 <= min(values) <= max(values) < rows:
        wrong = next(value for value in values if not 0 <= value < rows)
        raise DataError(f"{name} {wrong} was given to a model of {rows:,}")


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

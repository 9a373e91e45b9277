"""The structures and functions of native.h, parsed from it. Its first comment has the grammar."""

import re
import threading
from collections.abc import Callable, Iterator
from ctypes import CDLL, POINTER, Structure, c_double, c_float, c_int32, c_int64, c_void_p
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from seq2seq.decoding.native.build import SOURCES

NUMBERS: dict[str, Any] = {
    "float": c_float,
    "double": c_double,
    "int32_t": c_int32,
    "int64_t": c_int64,
}
ONLY_POINTED_TO = ("int8_t", "uint8_t", "void")
SKIPPED = re.compile(r"/\*.*?\*/|^#(?:define|endif|ifndef|include)\b[^\n]*|\bconst\b", re.S | re.M)
STATEMENT = re.compile(
    r"\s*(?:enum \{([\w\s,]*)\};"
    r"|typedef struct \{([^{}]*)\} (\w+);"
    r"|S2S_API (void|\w+_t) (\w+)\(([^(){};]*)\);)"
)
NAME = r"(?:\*\s*){0,2}\w+"
DECLARATION = re.compile(rf"\s*(\w+)\s+({NAME}(?:\s*,\s*{NAME})*)\s*")


class Header(NamedTuple):
    """The declarations of a C header, by name."""

    constants: SimpleNamespace
    structs: SimpleNamespace
    functions: dict[str, tuple[Any, list[Any]]]  # types of the result and of the parameters


def parse_header(text: str) -> Header:
    """Parse a header. Raises: ValueError, with the line, if the grammar does not allow it."""
    text = SKIPPED.sub(lambda skipped: "\n" * skipped[0].count("\n"), text)
    header, end = Header(SimpleNamespace(), SimpleNamespace(), {}), 0
    while text[end:].strip():
        found = STATEMENT.match(text, end)
        if found is None:
            refuse(text, end, "an enum, a typedef struct or a function of S2S_API")
        constants, _members, struct, result, function, parameters = found.groups()
        end = found.end()
        if constants is not None:
            numbers = enumerate(re.findall(r"\w+", constants))
            vars(header.constants).update({name: i for i, name in numbers})
        elif struct is not None:
            fields = [*parse_fields(text, *found.span(2), ";", header.structs)]
            setattr(header.structs, struct, type(struct, (Structure,), {"_fields_": fields}))
        else:
            start = found.end(6) if parameters == "void" else found.start(6)
            fields = [*parse_fields(text, start, found.end(6), ",", header.structs)]
            header.functions[function] = NUMBERS.get(result), [kind for _, kind in fields]
    return header


def parse_fields(
    text: str, start: int, end: int, separator: str, structs: SimpleNamespace
) -> Iterator[tuple[str, Any]]:
    """Names and types of members or parameters. All pointers to numbers have one type."""
    for declaration in filter(str.strip, text[start:end].split(separator)):
        found = DECLARATION.fullmatch(declaration)
        kind, names = found.groups() if found else ("", "")
        struct = getattr(structs, kind, None)
        types = [NUMBERS.get(kind, struct), POINTER(struct) if struct else c_void_p]
        is_known = struct or kind in NUMBERS or kind in ONLY_POINTED_TO
        for name in names.split(","):
            stars = name.count("*")
            if not is_known or (kind in ONLY_POINTED_TO and not stars):
                refuse(text, text.index(declaration, start), "a number, a struct or pointers")
            yield name.strip("* "), [*types, POINTER(c_void_p)][stars]


def refuse(text: str, start: int, allowed: str) -> NoReturn:
    """Refuse the text at `start`. Raises: ValueError, always."""
    start += len(text[start:]) - len(text[start:].lstrip())
    line = text.count("\n", 0, start) + 1
    raise ValueError(
        f"native.h, line {line}: {text[start:].splitlines()[0]!r} should be {allowed}; its first "
        "comment has the grammar"
    )


HEADER = parse_header((SOURCES / "native.h").read_text(encoding="utf-8"))
constants, structs = HEADER.constants, HEADER.structs


def open_library(path: str) -> CDLL:
    """Open a library and declare the types of its functions.

    Raises: OSError if it cannot be opened; AttributeError if it lacks a function.
    """
    library = CDLL(path)
    for name, (result, parameters) in HEADER.functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    return library


class Workspace(threading.local):
    """The scratch memory of a thread, for all models."""

    size, address = 0, 0

    def run(self, function: Callable[..., int], *arguments: Any) -> int:
        """Call a function with scratch memory, and again with more memory if that is too little. In
        that case the first call only returns the bytes that it needs.

        Returns: the bytes that it needs, or a negative error code.
        """
        needed: int = function(*arguments, self.address, self.size)
        if needed > self.size:
            self.held = torch.empty(2 * needed + 64, dtype=torch.uint8)
            self.size, self.address = 2 * needed, (self.held.data_ptr() + 63) // 64 * 64
            function(*arguments, self.address, self.size)
        return needed


WORKSPACE = Workspace()


def address(array: Any) -> int:
    """The address of the first number of a contiguous array."""
    found: int = array.__array_interface__["data"][0]
    return found


def data_ptr(tensor: Tensor | None) -> int | None:
    """The address of a tensor's numbers; None, which is NULL, for None."""
    return None if tensor is None else tensor.data_ptr()

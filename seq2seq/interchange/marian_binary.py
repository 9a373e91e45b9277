"""Read and write binary models of Marian: named arrays whose matrices may be quantised to 8 bits.

    u64 1, the version; u64 N, the number of items
    N times u64 bytes of the name, u64 type, u64 dimensions, u64 bytes of the data
    N names, each ended by a zero byte; N shapes of int32; u64 P, then P bytes of padding
    N times data, which may be padded, too

All numbers are little-endian. An array of type INTGEMM8 is stored as int8 values followed by one
float32, the multiplier: value = integer / multiplier. A matrix (K, N) of this type is stored
transposed, unless it is an embedding. `NAME_QuantMultA` is the multiplier for the inputs of the
matrix `NAME`. Firefox ships such files.

Source: src/common/binary.cpp and src/tensors/cpu/expression_graph_packable.h of Marian.
"""

import math
import struct
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.base.errors import DataError
from seq2seq.interchange.files import WEIGHTS

BINARY = (1).to_bytes(8, "little")  # the version, with which the file begins
FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101  # codes of types
ITEM_BYTES = {FLOAT32: 4, INT8: 1, INTGEMM8: 1}
EMBEDDING = "Wemb"  # part of the names of matrices that are not transposed
INPUT_MULTIPLIER = "_QuantMultA"
ALIGNMENT = 256  # bytes
LARGEST = 127  # largest integer
LONGEST_NAME, DIMENSIONS = 256, 4  # limits; usual values are 30 bytes and 2 dimensions
SMALLEST, LARGEST_MULTIPLIER = 1e-30, 1e30


class BinaryItem(NamedTuple):
    """An array as stored in a file."""

    name: str
    kind: int
    shape: tuple[int, ...]
    data: bytes

    @property
    def is_transposed(self) -> bool:
        return self.kind == INTGEMM8 and EMBEDDING not in self.name


def is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(BINARY)) == BINARY


def read_binary(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name, in float32 and not transposed; the description as int8.

    Raises: DataError if an item is damaged or has an unknown type.
    """
    arrays: dict[str, np.ndarray] = {}
    for item in read_items(path):
        if item.name in arrays:
            raise DataError(f"{path}: two items have the name {item.name!r}")
        arrays[item.name] = to_array(item, path)
    return arrays


def read_items(path: Path) -> list[BinaryItem]:
    """The items of a file that `is_binary`. Raises: DataError if the file is damaged."""
    file = BytesIO(path.read_bytes())

    def take(size: int, what: str) -> bytes:
        """The next `size` bytes. Raises: DataError if the file has fewer."""
        taken = file.read(min(size, WEIGHTS))
        if size > len(taken):
            raise DataError(f"{path}: {what} should have {size:,} bytes, but has {len(taken):,}")
        return taken

    _, count = struct.unpack("<2Q", take(16, "the version and the number of items"))
    entries = take(32 * count, f"the headers of {count:,} items")
    headers = list(struct.iter_unpack("<4Q", entries))
    names = [decode_name(take(size, "a name"), path) for size, *_ in headers]
    shapes = []
    for name, (_, _, dimensions, _) in zip(names, headers, strict=True):
        if dimensions > DIMENSIONS:
            raise DataError(f"{path}: {name} has {dimensions:,} dimensions; expected 1 or 2")
        numbers = take(4 * dimensions, f"the shape of {name}")
        shapes.append(struct.unpack(f"<{dimensions}i", numbers))
    (padding,) = struct.unpack("<Q", take(8, "the size of the padding"))
    take(padding, "the padding")
    items = []
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        items.append(BinaryItem(name, kind, shape, take(size, name)))
    if left := len(file.read()):
        raise DataError(f"{path} is damaged: {left:,} bytes follow the last item")
    return items


def decode_name(name: bytes, path: Path) -> str:
    """A name without its final zero byte. Raises: DataError if the bytes are not a valid name."""
    text, end = name[:-1], name[-1:]
    if end != b"\0" or not 0 < len(text) < LONGEST_NAME or not text.isascii() or b"\0" in text:
        raise DataError(f"{path} is damaged: {text[:30]!r} is not the name of an item")
    return text.decode("ascii")


def to_array(item: BinaryItem, path: Path) -> np.ndarray:
    """The array of an item, dequantised. Raises: DataError if the item is damaged."""
    if item.kind not in ITEM_BYTES:
        raise DataError(
            f"{path}: {item.name} is of the type {item.kind:#06x}, which may be packed for one "
            "kind of processor: expected float32, or intgemm8 as marian-conv -g intgemm8 writes it"
        )
    count, size = math.prod(item.shape), ITEM_BYTES[item.kind]
    needed = count * size + (4 if item.kind == INTGEMM8 else 0)
    if min(item.shape, default=0) < 1 or needed > len(item.data):
        raise DataError(
            f"{path}: {item.name} has the shape {item.shape} and {len(item.data):,} bytes, which "
            "do not fit together"
        )
    if item.kind == FLOAT32:
        return np.frombuffer(item.data, "<f4", count).reshape(item.shape)
    integers = np.frombuffer(item.data, np.int8, count)
    if item.kind == INT8:
        return integers.reshape(item.shape)
    (multiplier,) = struct.unpack_from("<f", item.data, count)
    if not SMALLEST < multiplier < LARGEST_MULTIPLIER:  # nor nan
        raise DataError(
            f"{path}: the multiplier of {item.name} is {multiplier}; expected a number above 0"
        )
    values = integers * np.float32(1 / multiplier)
    return values.reshape(item.shape[::-1]).T if item.is_transposed else values.reshape(item.shape)


def quantize(name: str, array: np.ndarray) -> BinaryItem:
    """An item in 8 bits, in which the largest magnitude becomes 127, as with marian-conv."""
    multiplier = np.float32(LARGEST / (float(np.abs(array).max()) or LARGEST))
    integers = np.rint(array * multiplier).clip(-LARGEST, LARGEST).astype(np.int8)
    item = BinaryItem(name, INTGEMM8, array.shape, b"")
    stored = integers.T if item.is_transposed else integers
    return item._replace(data=stored.tobytes() + multiplier.astype("<f4").tobytes())


def of_floats(name: str, array: np.ndarray) -> BinaryItem:
    return BinaryItem(name, FLOAT32, array.shape, array.astype("<f4").tobytes())


def describe(name: str, text: str) -> BinaryItem:
    """An item that holds text, such as the description of a model."""
    data = text.encode() + b"\0"
    return BinaryItem(name, INT8, (len(data),), data)


def serialize_items(items: Iterable[BinaryItem]) -> bytes:
    """The bytes of a file with these items, for `read_items`. Data begin at multiples of 256."""
    padded = [item._replace(data=item.data + bytes(-len(item.data) % ALIGNMENT)) for item in items]
    parts = [BINARY, struct.pack("<Q", len(padded))]
    for name, kind, shape, data in padded:
        parts.append(struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data)))
    parts += [item.name.encode() + b"\0" for item in padded]
    parts += [struct.pack(f"<{len(item.shape)}i", *item.shape) for item in padded]
    begun = b"".join(parts)
    padding = -(len(begun) + 8) % ALIGNMENT
    data = b"".join(item.data for item in padded)
    return begun + struct.pack("<Q", padding) + bytes(padding) + data

"""The wire format of protocol buffers, as far as a description of pieces needs it."""

import struct
from collections.abc import Iterator

from seq2seq.base.errors import DataError

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


def decode_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field, in order: an integer, or the bytes of whatever else.

    Raises: DataError for bytes that are no message.
    Source: protobuf.dev/programming-guides/encoding.
    """
    at = 0
    while at < len(message):
        key, at = decode_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = decode_varint(message, at)
            yield number, value
            continue
        sizes = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
        if kind == BYTES:
            size, at = decode_varint(message, at)
        elif kind in sizes:
            size = sizes[kind]
        else:
            raise DataError(f"byte {at} begins a field of the unknown kind {kind}")
        if size > len(message) - at:
            raise DataError(f"byte {at} announces {size:,} bytes, and {len(message) - at:,} follow")
        yield number, message[at : at + size]
        at += size


def decode_varint(message: bytes, at: int) -> tuple[int, int]:
    """An integer in groups of seven bits, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at == len(message):
            break
        value |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return value, at
    raise DataError(f"byte {at} is in the middle of a number that does not end")


def decode_text(value: int | bytes) -> str:
    """A field as text. Raises: DataError if it is none."""
    try:
        return bytes_of(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{value!r:.60} is not UTF-8") from error


def bytes_of(value: int | bytes) -> bytes:
    """A field as bytes. Raises: DataError for an integer."""
    if isinstance(value, int):
        raise DataError(f"the number {value} stands where text should be")
    return value


def float_of(value: int | bytes) -> float:
    """A field as a number of 32 bits. Raises: DataError for anything else."""
    if isinstance(value, int) or len(value) != 4:
        raise DataError("a score is not a number of four bytes")
    (score,) = struct.unpack("<f", value)
    return float(score)


def encode_field(number: int, value: int | float | bytes) -> bytes:
    """A field, as `decode_fields` reads it."""
    if isinstance(value, float):
        return encode_varint(number << 3 | FOUR_BYTES) + struct.pack("<f", value)
    if isinstance(value, int):
        return encode_varint(number << 3 | VARINT) + encode_varint(value)
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


def encode_varint(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    return bytes([value & 127 | 128]) + encode_varint(value >> 7)

"""SentencePiece models, written field by field."""

import struct


def field(number: int, value: bytes | int | float) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def model_bytes(
    pieces: dict[str, float], normal: bytes = b"", training: bytes = b"", **kinds: int
) -> bytes:
    """A model with <unk>, <s>, </s> and these pieces, without a map of characters."""
    special = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    listed = [*special, *((text, score, kinds.get(text, 1)) for text, score in pieces.items())]
    content = b"".join(
        field(1, field(1, text.encode()) + field(2, score) + field(3, kind))
        for text, score, kind in listed
    )
    return content + field(2, training) + field(3, normal)

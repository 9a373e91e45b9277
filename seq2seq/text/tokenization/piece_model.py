"""SentencePiece models: pieces with scores, and the normalisation of text.

A `.model` (or `.spm`) file is a protocol buffer. The code here reads and writes only the part of
this format that models need. Kudo and Richardson 2018, arXiv:1808.06226.
"""

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import normalizers

from seq2seq.base.errors import DataError
from seq2seq.text.tokenization.recipe import LARGEST
from seq2seq.text.tokenization.unigram import LESS, LITERAL_MARK

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
UNIGRAM, BPE = 1, 2  # kinds of models
OTHERS = {3: "word", 4: "char"}
LONGEST = 1000  # characters of a piece; usual ones have at most 16
# Put around the name of a piece that the model lacks, so that no text contains it; and around
# characters that the model lacks, which are thus looked up as a whole among these names.
ABSENT = LITERAL_MARK
# Range of private characters that replace the user-defined symbols of a model.
FIRST_CODE, LAST_CODE = 0x100000, 0x10FFFD
RESERVED = f"{LESS}{ABSENT}{chr(FIRST_CODE)}-{chr(LAST_CODE)}"  # for a character class
LESS_BYTE = "<0x3C>"
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5  # wire types of protocol buffers
SIZES = {EIGHT_BYTES: 8, FOUR_BYTES: 4}


class Piece(NamedTuple):
    """A piece of a model."""

    text: str
    score: float
    kind: int


class PieceModel(NamedTuple):
    """The content of a `.model` file."""

    pieces: list[Piece]
    algorithm: int  # UNIGRAM or BPE
    charsmap: bytes  # map that normalises characters; empty = none
    prefix: bool  # whether to put a space before the text
    collapse: bool  # whether to strip spaces at the ends and merge runs of spaces

    @property
    def named(self) -> list[str]:
        """The pieces that can occur in a text, in order."""
        return [piece.text for piece in self.pieces if piece.kind in (NORMAL, USER_DEFINED, BYTE)]

    @property
    def has_bytes(self) -> bool:
        return any(piece.kind == BYTE for piece in self.pieces)

    @property
    def symbols(self) -> dict[str, str]:
        """A private character for each user-defined symbol, the longest symbol first. Replacing
        the symbols keeps merges of byte pair encoding out of them.
        """
        own = (piece.text for piece in self.pieces if piece.kind == USER_DEFINED)
        return {text: chr(FIRST_CODE + i) for i, text in enumerate(longest_first(own))}

    def symbols_to_protect(self) -> dict[str, str]:
        """The user-defined symbols that normalisation would change, with their characters.

        Raises: DataError if the map of the normalisation is damaged.
        """
        if not self.symbols:
            return {}
        change = normalizers.Sequence(character_map(self)).normalize_str
        return {text: code for text, code in self.symbols.items() if change(text) != text}

    def names(self) -> dict[str, str]:
        """The name of each piece in the library.

        The library would find any name in a text. Another character is therefore written for "<",
        so that no text contains the name of a symbol or a byte. If "<" is not a piece, this
        character is the name of its byte.
        """
        names = self.symbols if self.algorithm == BPE else {}
        for text, _, kind in self.pieces:
            if kind in (NORMAL, USER_DEFINED):
                names.setdefault(text, text.replace("<", LESS))
            else:
                names[text] = text if kind == BYTE else mark_absent(text)
        if self.has_bytes and "<" not in self.named:
            names[LESS_BYTE] = LESS
        return names


def longest_first(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=lambda text: (-len(text), text))


def mark_absent(name: str) -> str:
    """The name in the library of a piece that the model lacks."""
    return ABSENT + name.replace("<", LESS) + ABSENT


def read_piece_model(path: Path) -> PieceModel:
    """Read a model file. Raises: DataError for other files and unsupported models."""
    try:
        size = path.stat().st_size
        if not path.is_file() or size > LARGEST:
            raise DataError(f"it should be a file of at most {LARGEST:,} bytes, and has {size:,}")
        return parse_piece_model(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}. It should be a SentencePiece model") from error
    except DataError as error:
        raise DataError(f"{path} is not a SentencePiece model that can be used: {error}") from error


def parse_piece_model(data: bytes) -> PieceModel:
    """Parse the bytes of a model file. Raises: DataError if the model is invalid or unsupported."""
    pieces, parts = [], {2: b"", 3: b"", 5: b""}
    for number, value in decode_fields(data):
        if number == 1:
            pieces.append(piece_of(bytes_of(value)))
        elif number in parts:
            parts[number] = bytes_of(value)
    training, normal, back = (dict(decode_fields(part)) for part in parts.values())
    algorithm = training.get(3, UNIGRAM)
    names = [piece.text for piece in pieces]
    if not pieces or len(set(names)) < len(names):
        raise DataError("it has no pieces" if not pieces else "two of its pieces are the same")
    if algorithm not in (UNIGRAM, BPE):
        raise DataError(
            f"its type is {OTHERS.get(int(algorithm), algorithm)!r}, not unigram or bpe: type "
            "tokenizer=word or tokenizer=char"
        )
    own_rules, has_marks = normal.get(1) == b"user_defined", normal.get(5, True)
    faults = {
        "it marks words at their end (treat_whitespace_as_suffix)": training.get(24),
        "it does not replace spaces by a mark (escape_whitespaces=false)": not has_marks,
        "it changes characters in its output (denormalization_rule_tsv)": back.get(2),
        "it has its own normalisation rules (normalization_rule_tsv)": own_rules,
    }
    for fault in filter(faults.get, faults):
        raise DataError(fault)
    charsmap = bytes_of(normal.get(2, b""))
    model = PieceModel(
        pieces, int(algorithm), charsmap, bool(normal.get(3, True)), bool(normal.get(4, True))
    )
    check_symbols(model)
    return model


def check_symbols(model: PieceModel) -> None:
    """Check that pieces are distinguishable in a text. Raises: DataError if they are not."""
    for piece in model.pieces:
        spaces = "  " in piece.text or piece.text.strip(" ") != piece.text
        if piece.kind == USER_DEFINED and model.collapse and spaces:
            raise DataError(
                f"its user-defined symbol {piece.text!r} contains spaces, which the model removes "
                "from text (remove_extra_whitespaces)"
            )
        if piece.kind in (NORMAL, USER_DEFINED) and re.search(f"[{RESERVED}]", piece.text):
            raise DataError(
                f"its piece {piece.text!r} contains a reserved character: U+FDD0, U+FDD1, or "
                "U+100000 to U+10FFFD"
            )
    check_overlaps(model.symbols_to_protect())
    check_overlaps(model.symbols if model.algorithm == BPE else {})


def check_overlaps(codes: Mapping[str, str]) -> None:
    """Check that overlaps of symbols make no difference. SentencePiece takes the first symbol in a
    text, and the longest that begins there; here, one symbol after the other is replaced.

    Raises: DataError if two symbols overlap so that the results differ.
    """
    begins: dict[str, list[str]] = {}
    for text in codes:
        for end in range(1, len(text)):
            begins.setdefault(text[:end], []).append(text)
    first = re.compile("|".join(map(re.escape, longest_first(codes))))
    for text in codes:
        for start in range(1, len(text)):
            for other in begins.get(text[start:], []):
                both = coded = text[:start] + other
                for symbol, code in codes.items():
                    coded = coded.replace(symbol, code)
                if first.sub(lambda match: codes[match[0]], both) != coded:
                    raise DataError(f"its user-defined symbols {text!r} and {other!r} overlap")


def piece_of(message: bytes) -> Piece:
    content = dict(decode_fields(message))
    try:
        name = bytes_of(content.get(1, b"")).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{error.object!r:.60} is not UTF-8") from error
    score = float_of(content.get(2, b"\0" * 4))
    if not name or len(name) > LONGEST or not math.isfinite(score):
        raise DataError(
            f"its piece {name[:30]!r} has {len(name):,} characters and the score {score}: expected "
            f"1 to {LONGEST:,} characters and a finite score"
        )
    return Piece(name, score, int(content.get(3, NORMAL)))


def character_map(model: PieceModel) -> list[Any]:
    """The normalizer of characters, in a list; empty if there is none. Raises: DataError if it is
    damaged.
    """
    if not model.charsmap:
        return []
    try:
        step = normalizers.Precompiled(model.charsmap)
        step.normalize_str("a\u00e9")
    except BaseException as error:  # a panic in the library is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise DataError(f"its normalisation is damaged: {error}") from error
    return [step]


def serialize(model: PieceModel) -> bytes:
    """The model as the bytes of a file, which `parse_piece_model` can read."""
    field = encode_field
    pieces = [
        field(1, field(1, name.encode()) + field(2, score) + field(3, kind))
        for name, score, kind in model.pieces
    ]
    normal = field(2, model.charsmap) + field(3, int(model.prefix)) + field(4, int(model.collapse))
    training = field(3, model.algorithm) + field(35, int(model.has_bytes))
    return b"".join(pieces) + field(2, training) + field(3, normal)


def decode_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field, in order. Values are integers, or else raw bytes.

    Raises: DataError if the bytes are not a protocol buffer message.
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
        if kind == BYTES:
            size, at = decode_varint(message, at)
        elif kind in SIZES:
            size = SIZES[kind]
        else:
            raise DataError(f"byte {at} begins a field of the unknown type {kind}")
        if size > len(message) - at:
            raise DataError(f"byte {at} announces {size:,} bytes, and {len(message) - at:,} follow")
        yield number, message[at : at + size]
        at += size


def decode_varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode an integer in groups of seven bits. Returns: the integer, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at == len(message):
            break
        value |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return value, at
    raise DataError(f"byte {at} is inside a number that does not end")


def bytes_of(value: int | bytes) -> bytes:
    """A field as bytes. Raises: DataError if the field is an integer."""
    if isinstance(value, int):
        raise DataError(f"the number {value} is in the place of a text")
    return value


def float_of(value: int | bytes) -> float:
    """A field as a 32-bit number. Raises: DataError if the field is anything else."""
    if isinstance(value, int) or len(value) != 4:
        raise DataError("a score is not a number of four bytes")
    (score,) = struct.unpack("<f", value)
    return float(score)


def encode_field(number: int, value: int | float | bytes) -> bytes:
    """Encode a field, so that `decode_fields` can read it."""
    if isinstance(value, float):
        return encode_varint(number << 3 | FOUR_BYTES) + struct.pack("<f", value)
    if isinstance(value, int):
        return encode_varint(number << 3 | VARINT) + encode_varint(value)
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


def encode_varint(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    return bytes([value & 127 | 128]) + encode_varint(value >> 7)

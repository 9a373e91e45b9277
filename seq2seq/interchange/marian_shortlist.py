"""Read and write binary shortlists of Marian (`lex.50.50.deen.s2t.bin`), as shipped with Firefox.

    u64 magic number, checksum of all that follows, F, longest list, N, M
    N u64: offset of each source id's list, then the end of the last list
    M u32: target ids of the lists, ascending within each list

Ids below F are allowed in every translation. If both languages share a vocabulary, the pieces of a
source are allowed in its translation. Marian joins the lists of a batch, and fills the result up to
a multiple of 8.

Source: src/data/shortlist.cpp of Marian.
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.base.errors import DataError
from seq2seq.base.symbols import EOS, NAMES, NEVER_GENERATED
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.interchange.imported import VocabularyMap

MAGIC = 0xF11A48D5013417F5
HEADER = struct.Struct("<6Q")
Array = NDArray[Any]


def read_marian_shortlist(path: Path, maps: Sequence[VocabularyMap]) -> Shortlist:
    """Read a shortlist, and convert it to our ids.

    Args:
        maps: maps of source and target; the same object twice if they share a vocabulary.

    Raises: DataError if the file is damaged or belongs to another vocabulary.
    """
    frequent, offsets, ids = read_lists(path)
    source, target = np.array(maps[0].ids), np.array(maps[1].ids)
    V, sizes = len(source), [side.their_size - 1 for side in maps]  # the last id is no piece
    if len(offsets) > sizes[0] + 1 or ids.max(initial=0) >= sizes[1]:
        raise DataError(
            f"{path} belongs to another vocabulary: it lists ids up to {ids.max(initial=0):,} for "
            f"{len(offsets) - 1:,} source pieces; the model has {sizes[1]:,} and {sizes[0]:,}"
        )
    # Three kinds of pieces have no list: the last ones, if the file ends early; `<pad>` and `<s>`;
    # and pieces that the model lacks. All of them get an empty list after the end.
    source[V - maps[0].missing :] = sizes[0]
    offsets = np.append(offsets, np.full(sizes[0] + 2 - len(offsets), len(ids)))
    counts = offsets[source + 1] - offsets[source]
    starts = np.repeat(offsets[source] - np.cumsum(counts) + counts, counts)
    rows, theirs = np.repeat(np.arange(V), counts), ids[starts + np.arange(counts.sum())]
    rows[rows == EOS] = V  # every source has eos, so its list is allowed everywhere
    anywhere = np.arange(min(frequent, sizes[1]))
    listed = [(rows, theirs), (np.full_like(anywhere, V), anywhere)]
    if maps[0] is maps[1]:
        listed.append((np.arange(V), source))
    ours = np.full(target.max() + 1, EOS)
    last = len(target) - maps[1].missing
    ours[target[len(NAMES) : last]] = np.arange(len(NAMES), last)
    pairs = np.concatenate([np.stack((row, ours[their]), 1) for row, their in listed])
    return Shortlist.of_pairs(pairs[~np.isin(pairs[:, 1], [*NEVER_GENERATED, EOS])], V)


def read_lists(path: Path) -> tuple[int, Array, Array]:
    """F, the offsets of the lists, and their ids. Raises: DataError if the file is damaged."""
    content = path.read_bytes()
    if len(content) < HEADER.size or content[:8] != MAGIC.to_bytes(8, "little"):
        raise DataError(
            f"{path} is not a binary shortlist of Marian. If it is text (lex.s2t.gz), type: "
            f"seq2seq shortlist RUN --lexicon {path}"
        )
    _, checksum, frequent, _, lists, length = HEADER.unpack_from(content)
    if not lists or len(content) != HEADER.size + 8 * lists + 4 * length:
        raise DataError(f"{path} is damaged: its size is not what its header says")
    if checksum != hash_words(content[16:]):
        raise DataError(f"{path} is damaged: its checksum does not match. Copy it again")
    offsets = np.frombuffer(content, "<u8", lists, HEADER.size)
    ids = np.frombuffer(content, "<u4", length, HEADER.size + 8 * lists)
    if offsets[0] or offsets[-1] != length or (offsets[1:] < offsets[:-1]).any():
        raise DataError(f"{path} is damaged: its lists do not follow one another")
    return frequent, offsets.astype(np.int64), ids.astype(np.int64)


def serialize_lists(lists: Sequence[Array], frequent: int) -> bytes:
    """The bytes of a file.

    Args:
        lists: target ids for each source id.
        frequent: number of ids that are allowed in every translation, F.
    """
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8").tobytes()
    ids = np.concatenate(lists).astype("<u4").tobytes()
    longest = max(map(len, lists))
    sizes = struct.pack("<4Q", frequent, longest, len(lists) + 1, len(ids) // 4)
    content = sizes + offsets + ids
    return struct.pack("<2Q", MAGIC, hash_words(content)) + content


def hash_words(content: bytes) -> int:
    """Marian's checksum of the 64-bit words; an incomplete word at the end is ignored."""
    seed, mask = 0, 2**64 - 1
    for (word,) in struct.iter_unpack("<Q", content[: len(content) // 8 * 8]):
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & mask
    return seed

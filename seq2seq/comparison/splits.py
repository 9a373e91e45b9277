"""Split two files of text into training, validation and test pairs."""

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.base.durable import write_text
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.data.text.leaks import Leaks, copy_keys, count_leaks, fold_text
from seq2seq.data.text.lines import check_parallel, read_lines

LARGEST, SHARE = 500, 20  # each held-out part has one pair in SHARE, but at most LARGEST

Pair = tuple[str, str]
Files = Sequence[Path]  # source, target


class Parts(NamedTuple):
    """The files of a comparison, the number of pairs in each part, and how many of valid and test
    leak into train, by name of the part.
    """

    files: Mapping[str, Files]  # train, valid, test
    counts: dict[str, int]
    leaks: dict[str, Leaks]


def language_of(text: Files, typed: tuple[str | None, str | None]) -> Pair:
    """The two languages: as typed; otherwise the suffixes of the files without .gz; if these are
    equal or missing, `source` and `target`.
    """
    found = [path.name.removesuffix(".gz").partition(".")[2].rpartition(".")[2] for path in text]
    if found[0] == found[1] or not all(found):
        found = ["source", "target"]
    source, target = (given or guess for given, guess in zip(typed, found, strict=True))
    return source, target


def write_parts(
    text: Files, given: Mapping[str, Files | None], folder: Path, languages: Pair, *, anew: bool
) -> Parts:
    """Write train, valid and test. Parts for which no files are given are held out of the text.

    Args:
        given: files of valid and of test; None = hold them out.
        languages: suffixes of the new files.
        anew: True to replace existing files, on which nothing has been trained yet.

    Raises: DataError if files are not parallel, or have too few pairs; ConfigError if the folder
        holds other text, which must not be replaced.
    """
    missing = [name for name, files in given.items() if files is None]
    train, *held_out = hold_out(read_file_pairs(text), len(missing), str(text[0]))
    pairs = {"train": train, **dict(zip(missing, held_out, strict=True))}
    pairs |= {name: read_file_pairs(files) for name, files in given.items() if files is not None}
    parts = ("train", *given)
    written = {name: [folder / f"{name}.{each}" for each in languages] for name in parts}
    for name, files in written.items():
        for file, lines in zip(files, zip(*pairs[name], strict=True), strict=True):
            if anew:
                file.unlink(missing_ok=True)
            write_once(file, "".join(f"{line}\n" for line in lines))
    counts = {name: len(pairs[name]) for name in written}
    return Parts(
        written, counts, {name: count_leaks(pairs[name], pairs["train"]) for name in given}
    )


def read_file_pairs(files: Files) -> list[Pair]:
    check_parallel(files[0], files[1], "training")
    return list(zip(*map(read_lines, files), strict=True))


def hold_out(pairs: Sequence[Pair], parts: int, name: str) -> list[list[Pair]]:
    """Split pairs into those for training and those of each held-out part, in the old order.

    Whole groups are held out (see `connect_pairs`), so neither a source nor a target of one part is
    also in another, and held-out parts contain no duplicates. The choice depends on hashes of the
    sources, so the same text is always split in the same way, and if a text grows, most of it is
    split as before. Groups with a side without letters and digits stay in training, and so do
    groups that are larger than a part.

    Args:
        parts: number of parts to hold out.
        name: name of the text, for messages.

    Raises: DataError if no part can be held out, or nothing would be left to train on.
    """
    groups = connect_pairs(pairs)
    if max(map(len, groups), default=0) > len(pairs) / 2:  # sentences of a grammar, for example
        groups = connect_pairs(pairs, near=False)
    complete = [
        rows for rows in groups if all(fold_text(text) for row in rows for text in pairs[row])
    ]
    order = sorted(complete, key=lambda rows: min(hash_source(pairs[row][0]) for row in rows))
    sizes = [len({pairs[row] for row in rows}) for rows in order]
    count = max(1, min(LARGEST, sum(sizes) // SHARE))
    chosen = [take(order, sizes, count) for _ in range(parts)]
    held = {row for part in chosen for row in part}
    if not all(chosen) or len(held) == len(pairs):
        raise DataError(
            f"{name} has {len(complete)} group(s) of pairs that share no sentence with others, "
            "which are too few, or too large, to hold some out. Give files: --valid SOURCE TARGET "
            "--test SOURCE TARGET"
        )
    train = [pair for row, pair in enumerate(pairs) if row not in held]
    return [train, *(list(dict.fromkeys(pairs[row] for row in part)) for part in chosen)]


def take(order: list[list[int]], sizes: list[int], count: int) -> list[int]:
    """Remove groups from the end of `order`, and their sizes, until they have `count` pairs; groups
    that would be too many are left. Returns: their rows, ascending.
    """
    taken: list[int] = []
    for place in range(len(order) - 1, -1, -1):
        if sizes[place] <= count:
            count -= sizes.pop(place)
            taken += order.pop(place)
    return sorted(taken)


def hash_source(source: str) -> bytes:
    return hashlib.sha256(" ".join(source.split()).encode()).digest()


def connect_pairs(pairs: Sequence[Pair], *, near: bool = True) -> list[list[int]]:
    """The groups of rows that share sentences: pairs are connected if their sources or their
    targets are copies (or near-copies, see `seq2seq.data.text.leaks`), also through other pairs.
    """
    keys, rows = array("q"), array("q")
    for row, pair in enumerate(pairs):
        for side, text in enumerate(pair):
            found = copy_keys(text)[: None if near else 1]
            keys.extend(key ^ side for key in found)
            rows.extend([row] * len(found))
    order = np.argsort(keys, kind="stable")
    values, sorted_rows = np.asarray(keys)[order], np.asarray(rows)[order]
    same = values[1:] == values[:-1]
    first = list(range(len(pairs)))  # a smaller row of the same group, or the row itself
    for a, b in zip(sorted_rows[:-1][same].tolist(), sorted_rows[1:][same].tolist(), strict=True):
        a, b = find_first(first, a), find_first(first, b)
        first[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for row in range(len(pairs)):
        groups.setdefault(find_first(first, row), []).append(row)
    return list(groups.values())


def find_first(first: list[int], row: int) -> int:
    """The smallest row of a group, in a union-find forest."""
    while first[row] != row:
        first[row] = row = first[first[row]]
    return row


def write_once(path: Path, text: str) -> None:
    """Write a file unless it exists.

    Raises: ConfigError if it exists with other text, on which runs were trained.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    elif path.read_bytes() != text.encode():
        raise ConfigError(
            f"{path} holds other text than this comparison would write, and its runs were trained "
            "on it. Choose another folder, -o ANOTHER, or remove this one"
        )

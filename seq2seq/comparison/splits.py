"""Split two files of text into training, validation and test pairs."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seq2seq.base.durable import write_text
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.data.text.lines import check_parallel, read_lines

LARGEST, SHARE = 500, 20  # each held-out part has one source in SHARE, but at most LARGEST

Pair = tuple[str, str]
Files = tuple[Path, Path]  # source, target


class Parts(NamedTuple):
    """The files of a comparison, and the number of pairs in each part, by name of the part."""

    files: dict[str, Files]  # train, valid, test
    counts: dict[str, int]


def language_of(
    text: Files, typed: tuple[str | None, str | None] = (None, None)
) -> tuple[str, str]:
    """The two languages: as typed; otherwise the suffixes of the files without .gz; if these are
    equal or missing, `source` and `target`.
    """
    found = [path.name.removesuffix(".gz").partition(".")[2].rpartition(".")[2] for path in text]
    if found[0] == found[1] or not all(found):
        found = ["source", "target"]
    source, target = (given or guess for given, guess in zip(typed, found, strict=True))
    return source, target


def write_parts(
    text: Files,
    given: dict[str, Files | None],
    folder: Path,
    languages: tuple[str, str],
    *,
    anew: bool,
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
    written = {
        name: (folder / f"{name}.{languages[0]}", folder / f"{name}.{languages[1]}")
        for name in ("train", *given)
    }
    for name, files in written.items():
        for file, lines in zip(files, zip(*pairs[name], strict=True), strict=True):
            if anew:
                file.unlink(missing_ok=True)
            write_once(file, "".join(f"{line}\n" for line in lines))
    return Parts(written, {name: len(pairs[name]) for name in written})


def read_file_pairs(files: Files) -> list[Pair]:
    check_parallel(*files, "training")
    return list(zip(*map(read_lines, files), strict=True))


def hold_out(pairs: Sequence[Pair], parts: int, name: str) -> list[list[Pair]]:
    """Split pairs into those for training and those of each held-out part, in the old order.

    All pairs with the same source (ignoring white space) are in the same part, and held-out parts
    contain no duplicates. The choice depends on hashes of the sources, so the same text is always
    split in the same way, and if a text grows, most of it is split as before. Pairs with an empty
    side stay in training, which counts and skips them.

    Args:
        parts: number of parts to hold out.
        name: name of the text, for messages.

    Raises: DataError if nothing would be left to train on.
    """
    rows: dict[str, list[int]] = {}
    for row, (source, _) in enumerate(pairs):
        rows.setdefault(" ".join(source.split()), []).append(row)
    complete = [key for key in rows if key and all(pairs[row][1].strip() for row in rows[key])]
    order = sorted(complete, key=lambda key: hashlib.sha256(key.encode()).digest())
    if parts and len(order) <= parts:
        raise DataError(
            f"{name} has {len(order)} different sentence(s) with a translation, which are too few "
            "to hold some out. Give files: --valid SOURCE TARGET --test SOURCE TARGET"
        )
    count = max(1, min(LARGEST, len(order) // SHARE))
    chosen: list[list[int]] = []
    for _ in range(parts):
        taken: list[int] = []
        while len(taken) < count and len(order) > 1:
            taken += rows.pop(order.pop())
        chosen.append(sorted(taken))
    left = sorted(row for each in rows.values() for row in each)
    distinct = [list(dict.fromkeys(pairs[row] for row in part)) for part in chosen]
    return [[pairs[row] for row in left], *distinct]


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

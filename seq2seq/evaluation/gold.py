"""Do links fit the sentence pairs that they are said to belong to?"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import Links


def check_count(path: Path, lines: int, pairs: int, of: str) -> None:
    """Raises: DataError if a file of links has not one line for each pair.

    Args:
        of: what holds the pairs, for messages: `a.de and a.en`.
    """
    if lines != pairs:
        raise DataError(
            f"{path} has {lines:,} lines of links for {pairs:,} pairs of {of}: one for each, "
            "empty if a pair has none"
        )


def check_range(
    path: Path, links: Sequence[Links], sizes: Iterable[tuple[int, int]], of: str
) -> None:
    """Raises: DataError naming file and line for the first link beyond its sentences.

    Args:
        sizes: words of the source and of the target, for each pair.
        of: as of `check_count`.
    """
    for number, (found, size) in enumerate(zip(links, sizes, strict=True), start=1):
        check_words(found, size, f"{path}:{number}", of)


def check_words(links: Links, size: tuple[int, int], where: str, of: str) -> None:
    """Raises: DataError for the first link beyond a pair's words.

    Args:
        size: words of the source and of the target.
        where: file and line, for messages.
        of: as of `check_count`.
    """
    for i, j in sorted(links.possible):
        if i < size[0] and j < size[1]:
            continue
        side, index, words = ("target", j, size[1]) if i < size[0] else ("source", i, size[0])
        last = f"its last word is {words - 1}" if words else "it has no word"
        raise DataError(
            f"{where}: link {i}-{j} is out of range: there is no {side} word {index}; {last}. "
            f"Words are counted from 0 and are what spaces separate in {of}; the source comes first"
        )

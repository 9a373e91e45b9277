"""Do links fit the sentence pairs that they are said to belong to?"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import Links


def check_count(path: Path, links: Sequence[Links], pairs: int, of: str) -> None:
    """Raises: DataError if a file of links has not one line for each pair.

    Args:
        of: what holds the pairs, for messages: `a.de and a.en`.
    """
    if len(links) != pairs:
        raise DataError(
            f"{path} has {len(links):,} lines of links for {pairs:,} pairs of {of}: one for each, "
            "empty if a pair has none"
        )


def check_range(
    path: Path, links: Sequence[Links], sizes: Iterable[tuple[int, int]], of: str
) -> None:
    """Raises: DataError naming file and line for the first link beyond its sentences.

    Args:
        sizes: words of the source and of the target, for each pair.
        of: what holds the pairs, for messages: `a.de and a.en`.
    """
    for number, (found, size) in enumerate(zip(links, sizes, strict=True), start=1):
        for i, j in sorted(found.possible):
            if i < size[0] and j < size[1]:
                continue
            side, index, words = ("target", j, size[1]) if i < size[0] else ("source", i, size[0])
            last = f"its last word is {words - 1}" if words else "it has no word"
            raise DataError(
                f"{path}:{number}: link {i}-{j} is out of range: there is no {side} word {index}; "
                f"{last}. Words are counted from 0 and are what spaces separate in {of}; the "
                "source comes first"
            )

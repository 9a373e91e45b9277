"""Files of links, read for the sentence pairs that they belong to."""

from collections.abc import Iterable
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import Links, read_alignment


def read_links(path: Path, sizes: Iterable[tuple[int, int]], of: str) -> list[Links]:
    """The links of a Pharaoh file, each inside its sentence pair.

    Args:
        sizes: words of the source and of the target, for each pair.
        of: what holds the pairs, for messages: `a.de and a.en`.

    Raises: DataError naming file and line for what is not a link, for a word number beyond its
        sentence, and for more or fewer lines than there are pairs.
    """
    found, known = read_alignment(path), list(sizes)
    check_count(path, len(found), len(known), of)
    for number, (links, size) in enumerate(zip(found, known, strict=True), start=1):
        for i, j in sorted(links.possible):
            if i >= size[0] or j >= size[1]:
                side, index, words = (
                    ("target", j, size[1]) if i < size[0] else ("source", i, size[0])
                )
                raise DataError(
                    f"{path}:{number}: link {i}-{j} is out of range: word {index} of a {side} of "
                    f"{words} words, counted from 0. Write the source first; words are what spaces "
                    f"separate in {of}"
                )
    return found


def check_count(path: Path, lines: int, pairs: int, of: str) -> None:
    """Raises: DataError if a file of links has not one line for each pair."""
    if lines != pairs:
        raise DataError(
            f"{path} has {lines:,} lines of links for {pairs:,} pairs of {of}: one for each, empty "
            "if a pair has none"
        )

"""Scores by the length of the source, which the score of a corpus hides.

The idea is that of compare-mt, Neubig et al. 2019, arXiv:1903.07926.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq.languages import is_spaceless
from seq2seq.metrics.registry import References

LENGTHS = (0, 11, 21, 31, 41, 51)  # where each bucket begins


class LengthBucket(NamedTuple):
    """The score of the sentences whose source has from `low` to `high` words."""

    low: int
    high: int | None  # None: no limit
    sentences: int
    score: float

    @property
    def range(self) -> str:
        """Its lengths as text: `11-20`, or `51+`."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def length_unit(language: str | None) -> str:
    """The unit in which sources of this language are measured."""
    return "characters" if is_spaceless(language) else "words"


def score_by_length(
    source: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    score: Callable[[list[str], References], float],
    language: str | None = None,
) -> list[LengthBucket]:
    """A score for the sentences of each range of source lengths that occurs.

    Args:
        score: of hypotheses and references.
        language: of the source: characters are counted where no spaces separate words.
    """
    spaceless = is_spaceless(language)
    lengths = [len("".join(s.split())) if spaceless else len(s.split()) for s in source]
    buckets = []
    ends = [start - 1 for start in LENGTHS[1:]]
    for low, high in zip(LENGTHS, [*ends, None], strict=True):
        rows = [i for i, n in enumerate(lengths) if n >= low and (high is None or n <= high)]
        if rows:
            some = [[stream[i] for i in rows] for stream in references]
            value = score([hypotheses[i] for i in rows], some)
            buckets.append(LengthBucket(low, high, len(rows), value))
    return buckets

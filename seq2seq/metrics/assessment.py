"""Score a system's translations of a test set, as a whole and by source length.

A corpus score hides how quality depends on length. The idea of showing it is from compare-mt,
Neubig et al. 2019, arXiv:1903.07926.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sacrebleu.metrics.base import Metric

from seq2seq.metrics.registry import MetricKind, References, build_metrics
from seq2seq.metrics.scores import CorpusScore, corpus_scores
from seq2seq.text.languages import is_spaceless

LENGTHS = (0, 11, 21, 31, 41, 51)  # smallest length in each bucket


class LengthBucket(NamedTuple):
    """The score of the sentences whose source has `low` to `high` words (or characters)."""

    low: int
    high: int | None  # None: no limit
    sentences: int
    score: float

    @property
    def range(self) -> str:
        """The range of lengths as text: `11-20`, or `51+`."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class Assessment:
    """The scores of one system, in all and by source length."""

    scores: list[CorpusScore]
    length_unit: str
    lengths: list[LengthBucket]  # the first of the scores, by source length


@dataclass
class Assessor:
    """Assesses systems on one test set.

    Args:
        source: source sentences.
        references: references of the sentences; every sentence needs at least one.
        kinds: scores to compute.
        languages: languages of source and target; None if unknown.
        resamples: number of bootstrap resamples for the intervals; 0 = no intervals.
    """

    source: Sequence[str]
    references: References
    kinds: Sequence[MetricKind]
    languages: tuple[str | None, str | None]
    resamples: int = 0
    metrics: Mapping[str, Metric] = field(init=False)  # by label

    def __post_init__(self) -> None:
        self.metrics = build_metrics(self.kinds, self.references, self.languages[1])

    def assess(self, hypotheses: Sequence[str]) -> Assessment:
        scores = corpus_scores(hypotheses, self.metrics, self.resamples)
        language = self.languages[0]
        lengths = score_by_length(self.source, hypotheses, self.references, self._first, language)
        return Assessment(scores, length_unit(language), lengths)

    def _first(self, hypotheses: list[str], references: References) -> float:
        """The value of the first score for some of the sentences."""
        metrics = build_metrics(self.kinds[:1], references, self.languages[1])
        return corpus_scores(hypotheses, metrics)[0].value


def length_unit(language: str | None) -> str:
    """The unit in which the lengths of sources in this language are counted."""
    return "characters" if is_spaceless(language) else "words"


def score_by_length(
    source: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    score: Callable[[list[str], References], float],
    language: str | None = None,
) -> list[LengthBucket]:
    """Score the sentences in each bucket of source lengths; empty buckets are left out.

    Args:
        score: function from hypotheses and references to a score.
        language: source language; lengths are in characters if it has no spaces between words.
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

"""Score a system's translations of a test set, as a whole and by source length.

A corpus score hides how quality depends on length. The idea of showing it is from compare-mt,
Neubig et al. 2019, arXiv:1903.07926.
"""

from collections.abc import Iterator, Mapping, Sequence
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
        unit = length_unit(self.languages[0])
        return Assessment(scores, unit, list(self._score_by_length(hypotheses, unit)))

    def _score_by_length(self, hypotheses: Sequence[str], unit: str) -> Iterator[LengthBucket]:
        """The first score of the sentences in each bucket of source lengths; empty buckets are left
        out.

        Args:
            unit: unit in which the lengths of sources are counted.
        """
        by_word = unit == "words"
        lengths = [len(s.split() if by_word else "".join(s.split())) for s in self.source]
        for low, end in zip(LENGTHS, [*LENGTHS[1:], None], strict=True):
            rows = [i for i, n in enumerate(lengths) if low <= n and (end is None or n < end)]
            if rows:
                references = [[stream[i] for i in rows] for stream in self.references]
                metrics = build_metrics(self.kinds[:1], references, self.languages[1])
                score = corpus_scores([hypotheses[i] for i in rows], metrics)[0].value
                yield LengthBucket(low, end and end - 1, len(rows), score)


def length_unit(language: str | None) -> str:
    """The unit in which the lengths of sources in this language are counted: words, or characters
    if there are no spaces between words.
    """
    return "characters" if is_spaceless(language) else "words"

"""All scores of a system's translations of a test set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sacrebleu.metrics.base import Metric

from seq2seq.metrics.buckets import LengthBucket, length_unit, score_by_length
from seq2seq.metrics.registry import MetricKind, References, build_metrics
from seq2seq.metrics.scores import CorpusScore, corpus_scores


@dataclass(frozen=True)
class Assessment:
    """The scores of one system, and where they come from."""

    scores: list[CorpusScore]
    length_unit: str
    lengths: list[LengthBucket]  # the first of the scores


@dataclass
class Assessor:
    """Assesses systems on one test set.

    Args:
        source: its sentences.
        references: their references, see `References`; the first is there for every sentence.
        kinds: the scores.
        languages: of source and target, None if unknown.
        resamples: for the intervals; 0 for none.
    """

    source: Sequence[str]
    references: References
    kinds: Sequence[MetricKind]
    languages: tuple[str | None, str | None]
    resamples: int = 0
    metrics: Mapping[str, Metric] = field(init=False)  # by their labels

    def __post_init__(self) -> None:
        self.metrics = build_metrics(self.kinds, self.references, self.languages[1])

    def assess(self, hypotheses: Sequence[str]) -> Assessment:
        return Assessment(
            corpus_scores(hypotheses, self.metrics, self.resamples),
            length_unit(self.languages[0]),
            score_by_length(
                self.source, hypotheses, self.references, self._first, self.languages[0]
            ),
        )

    def _first(self, hypotheses: list[str], references: References) -> float:
        """The first of the scores, of some of the sentences."""
        metrics = build_metrics(self.kinds[:1], references, self.languages[1])
        return corpus_scores(hypotheses, metrics)[0].value

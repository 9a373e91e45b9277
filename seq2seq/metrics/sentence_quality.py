"""The quality of each translation beside the model's confidence in it."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import StatisticsError, correlation
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF

from seq2seq.metrics.registry import References

Confidence = tuple[float, float]  # in a sentence, and the sentence's quality


class SentenceQuality(NamedTuple):
    """A translation of a sentence of a test set.

    Attributes:
        line_no: its line, from 1.
        confidence: the geometric mean of the probabilities of its pieces, 0 to 1; None for an empty
            one.
        quality: sentence chrF, 0 to 100.
    """

    line_no: int
    source: str
    hypothesis: str
    reference: str
    confidence: float | None
    quality: float


def sentence_quality(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """sacreBLEU's chrF of each sentence, 0 to 100.

    Source: Popovic 2015 (W15-3049).
    """
    metric = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return [metric.sentence_score(hypothesis, [reference]).score for hypothesis, reference in pairs]


def length_ratio(hypotheses: Sequence[str], references: References) -> float:
    """Characters of the translations per character of the first references, without white space."""
    written, expected = (
        sum(len("".join((text or "").split())) for text in texts)
        for texts in (hypotheses, references[0])
    )
    return written / max(expected, 1)


def split_tenths(known: Sequence[Confidence]) -> list[list[Confidence]]:
    """The sentences in bins of equal size, least confident first.

    Confidence is useful where quality rises with it. The two need not be equal: a probability of
    pieces is not in the units of chrF.
    """
    ordered = sorted(known)
    edges = [len(ordered) * n // 10 for n in range(11)]
    return [ordered[start:end] for start, end in pairwise(edges) if start < end]


def correlate(known: Sequence[Confidence]) -> float | None:
    """Pearson's correlation of confidence and quality; None where one of them does not vary."""
    try:
        return correlation([c for c, _ in known], [q for _, q in known])
    except StatisticsError:
        return None


def extremes(
    judged: Sequence[SentenceQuality], count: int
) -> tuple[list[SentenceQuality], list[SentenceQuality]]:
    """The worst sentences and the best, none in both; of equal ones the longer first."""
    ranked = sorted(judged, key=lambda j: (j.quality, -len(j.reference)))
    count = min(count, len(ranked) // 2)
    best = sorted(judged, key=lambda j: (-j.quality, -len(j.reference)))
    worst = ranked[:count]
    return worst, [j for j in best if j not in worst][:count]

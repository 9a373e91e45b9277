"""The quality of single translations, and the model's confidence in them."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF


class SentenceQuality(NamedTuple):
    """A translation of one sentence of a test set, with its quality.

    Attributes:
        line_no: line number in the test set, from 1.
        confidence: geometric mean of the probabilities of its pieces, 0 to 1; None for an empty
            translation.
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


def nearest_to(hypotheses: Sequence[str], reference: str) -> int:
    """The index of the hypothesis with the highest chrF; the first one in a tie."""
    scores = sentence_quality(hypotheses, [reference] * len(hypotheses))
    return scores.index(max(scores))


def extremes(
    judged: Sequence[SentenceQuality], count: int
) -> tuple[list[SentenceQuality], list[SentenceQuality]]:
    """The worst and the best sentences, up to `count` each. No sentence is in both lists; in a tie,
    longer sentences come first.
    """
    ranked = sorted(judged, key=lambda j: (j.quality, -len(j.reference)))
    count = min(count, len(ranked) // 2)
    best = sorted(judged, key=lambda j: (-j.quality, -len(j.reference)))
    worst = ranked[:count]
    return worst, [j for j in best if j not in worst][:count]

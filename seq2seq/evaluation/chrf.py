"""chrF as a sum of counts, so that it can be computed over any number of devices."""

from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF

COUNTS = 3 * CHRF.CHAR_ORDER  # for n = 1..6: n-grams of hypothesis, of reference, in both


def chrf_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> list[int]:
    """The counts that chrF is computed from: those of two corpora add up to those of both.

    Args:
        hypotheses: translations, detokenised.
        references: as many, in the same order.

    Source: Popovic 2015 (W15-3049), with the settings of sacreBLEU.
    """
    if not hypotheses:
        return [0] * COUNTS
    # sacreBLEU offers the counts of a corpus only by this name; the tests hold it to the score.
    rows = CHRF()._extract_corpus_statistics(list(hypotheses), [list(references)])
    return [sum(column) for column in zip(*rows, strict=True)]


def chrf_from_statistics(statistics: Sequence[int]) -> float:
    """Corpus chrF, 0 to 100, from summed `chrf_statistics`."""
    return CHRF()._compute_score_from_stats(list(statistics)).score

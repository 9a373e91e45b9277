"""Corpus scores with confidence intervals, and significance tests between systems."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric, Score
from sacrebleu.significance import PairedTest

from seq2seq.base.errors import ConfigError, DataError

RESAMPLES = 1000  # as in `sacrebleu --confidence`
# sacreBLEU keeps the statistics of all resamples in memory: 0.7 GB for this many sentences.
MANY = 10_000
TESTS = {"bootstrap": "bs", "randomization": "ar"}  # sacreBLEU's names for the tests


class Interval(NamedTuple):
    """The 95% bootstrap interval of a score: mean +- half_width.

    As in `sacrebleu --confidence`, the mean is over the resamples; it is not the score itself. A
    single sentence has no interval, since all its resamples are equal.
    """

    mean: float
    half_width: float
    signature: str  # the score's signature with the number of resamples and the seed


class CorpusScore(NamedTuple):
    """A corpus score, with sacreBLEU's signature, which says exactly how it was computed.

    BLEU and chrF range from 0 to 100, the best value. TER counts edits per 100 words of the
    references: 0 is best, and bad translations may exceed 100.
    """

    name: str
    value: float
    signature: str
    interval: Interval | None = None


def corpus_scores(
    hypotheses: Sequence[str], metrics: Mapping[str, Metric], resamples: int = 0
) -> list[CorpusScore]:
    """The scores of a whole corpus, in the order of the metrics.

    Args:
        hypotheses: one output for each sentence of the references.
        metrics: result of `build_metrics`.
        resamples: number of test sets drawn with replacement for the interval; 0 = no interval. The
            seed is sacreBLEU's, or SACREBLEU_SEED in the environment.

    Raises: DataError if there is no sentence.
    Sources: Papineni et al. 2002 (P02-1040); Popovic 2015 (W15-3049); Snover et al. 2006
        (2006.amta-papers.25); Post 2018, arXiv:1804.08771; of the bootstrap: Koehn 2004 (W04-3250).
    """
    if not hypotheses:
        raise DataError("there is no sentence to score: give at least one translation")
    scores = []
    for label, metric in metrics.items():
        signature = str(metric.get_signature())
        score = sacrebleu_score(metric, hypotheses, max(resamples, 1))
        interval = None
        if resamples:
            if len(hypotheses) > 1:
                drawn = float(score._mean), float(score._ci)
                interval = Interval(*drawn, str(metric.get_signature()))
            # Otherwise these would appear in the signatures of later tests with this metric.
            metric.n_bootstrap = metric.seed = None
        # Some of sacreBLEU's scores are NumPy scalars.
        scores.append(CorpusScore(label, float(score.score), signature, interval))
    return scores


def sacrebleu_score(metric: Metric, hypotheses: Sequence[str], resamples: int) -> Any:
    """sacreBLEU's score of a corpus, even if some resamples score zero.

    In that case some of its scores are Python floats and others NumPy scalars, and its mean raises
    TypeError; the scores are then computed again, all as floats.
    """
    try:
        return metric.corpus_score(hypotheses, None, n_bootstrap=resamples)
    except TypeError:
        score_of = metric._compute_score_from_stats

        def plain(stats: list[Any]) -> Score:
            score: Score = score_of(stats)
            score.score = float(score.score)
            return score

        setattr(metric, "_compute_score_from_stats", plain)  # noqa: B010 - a method
        return metric.corpus_score(hypotheses, None, n_bootstrap=resamples)


def usual_resamples(sentences: int) -> int:
    """The default number of resamples; 0 for so many sentences that they would fill the memory."""
    return RESAMPLES if sentences <= MANY else 0


def check_seed() -> None:
    """Check the environment variable SACREBLEU_SEED. Raises: ConfigError if it is not a seed."""
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdigit()):
        raise ConfigError(
            f"SACREBLEU_SEED={seed} should be a whole number, or none: unset SACREBLEU_SEED for "
            "sacreBLEU's default"
        )


class Compared(NamedTuple):
    """A score of one system, compared with the baseline's."""

    value: float
    p_value: float | None  # None for the baseline itself, or if there is only one sentence
    interval: Interval | None  # None for approximate randomisation, or if there is one sentence


class Comparison(NamedTuple):
    """One score of all systems, compared with that of the first system."""

    signature: str
    trials: int
    systems: list[Compared]  # the baseline first


def compare_systems(
    systems: Mapping[str, Sequence[str]], metrics: Mapping[str, Metric], test: str
) -> dict[str, Comparison]:
    """Compare every system with the first one, by every metric.

    The p-value is the probability of a difference at least as large if both systems were equally
    good. It says nothing about the size of the difference.

    Args:
        systems: outputs of each system for the same sentences, by name.
        metrics: result of `build_metrics`.
        test: name of a test: `bootstrap`, or `randomization`, which assumes less but takes longer.

    Source: Koehn 2004 (W04-3250); Riezler and Maxwell 2005 (W05-0908).
    """
    comparisons = {}
    single = len(next(iter(systems.values()))) == 1
    for label, metric in metrics.items():
        # One test per metric, all with the same seed, since sacreBLEU gives two kinds of BLEU the
        # same name.
        paired = PairedTest(
            list(systems.items()), {label: metric}, references=None, test_type=TESTS[test]
        )
        signatures, scores = paired()
        (name,) = signatures
        signature = str(signatures[name])
        compared = []
        for result in scores[name]:
            assert not isinstance(result, str)  # only the column of names has strings
            interval = None
            if not single and result.mean is not None and result.ci is not None:
                interval = Interval(float(result.mean), float(result.ci), signature)
            p_value = None if single else result.p_value
            compared.append(Compared(result.score, p_value, interval))
        comparisons[label] = Comparison(signature, paired.n_samples, compared)
    return comparisons

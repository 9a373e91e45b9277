"""Corpus scores with confidence intervals, and tests between systems."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric, Score
from sacrebleu.significance import PairedTest

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.metrics.registry import DEFAULT, build_metrics, find_metrics

RESAMPLES = 1000  # as in `sacrebleu --confidence`
# sacreBLEU holds the statistics of all resamples at once: 0.7 GB for this many sentences.
MANY = 10_000
TESTS = {"bootstrap": "bs", "randomization": "ar"}  # sacreBLEU's names for the tests


class Interval(NamedTuple):
    """The 95% bootstrap interval of a score: mean +- half_width.

    As in `sacrebleu --confidence`, the mean is over the resamples, not the score itself. A single
    sentence has none: each resample of it is that sentence.
    """

    mean: float
    half_width: float
    signature: str  # the score's, with the count of resamples and the seed


class CorpusScore(NamedTuple):
    """A corpus score; sacreBLEU's signature says exactly how it was computed.

    BLEU and chrF are between 0 and 100, which is best. TER counts edits per 100 words of the
    references: 0 is best, and bad translations may exceed 100.
    """

    name: str
    value: float
    signature: str
    interval: Interval | None = None


def score_corpus(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str | None = None
) -> list[CorpusScore]:
    """BLEU, chrF and TER, in this order, of a whole corpus.

    Args:
        hypotheses: one translation a sentence, detokenised.
        references: the expected translations in the same order, detokenised.
        language: the target language as a code (`de`, `zh`, `zh-Hans`). It chooses BLEU's
            tokenizer: sacreBLEU's `zh` for Chinese, characters for other languages that put no
            spaces between words, else 13a. TER counts Chinese characters one by one, also in
            Japanese, but not kana.

    Raises: DataError if the counts differ or there is no sentence.
    Source: Papineni et al. 2002 (P02-1040); Popovic 2015 (W15-3049); Snover et al. 2006
        (2006.amta-papers.25); Post 2018, arXiv:1804.08771.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations cannot be compared with {len(references)} references. "
            "Give one line of each for every sentence, empty lines included."
        )
    metrics = build_metrics(find_metrics(DEFAULT), [references], language)
    return corpus_scores(hypotheses, metrics)


def corpus_scores(
    hypotheses: Sequence[str], metrics: Mapping[str, Metric], resamples: int = 0
) -> list[CorpusScore]:
    """The scores of a whole corpus, in the order of the metrics.

    Args:
        hypotheses: one output for each sentence of the references.
        metrics: result of `build_metrics`.
        resamples: test sets drawn with replacement for the interval; 0 for none. The seed is
            sacreBLEU's, or SACREBLEU_SEED in the environment.

    Raises: DataError if there is no sentence.
    Source: Koehn 2004 (W04-3250) of the bootstrap.
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
            # Left on the metric, these would appear in the signatures of other tests.
            metric.n_bootstrap = metric.seed = None
        # Some of sacreBLEU's scores are NumPy scalars.
        scores.append(CorpusScore(label, float(score.score), signature, interval))
    return scores


def sacrebleu_score(metric: Metric, hypotheses: Sequence[str], resamples: int) -> Any:
    """sacreBLEU's score, also where some resamples score zero.

    There some of its scores are Python floats and others NumPy scalars, whose mean it cannot take
    (TypeError); only then are all of them made floats.
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
    """The default number of resamples: 0 if they would fill the memory."""
    return RESAMPLES if sentences <= MANY else 0


def check_seed() -> None:
    """Raises: ConfigError if the environment variable SACREBLEU_SEED is not a seed."""
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdigit()):
        raise ConfigError(
            f"SACREBLEU_SEED={seed} should be a whole number, or none: unset SACREBLEU_SEED for "
            "sacreBLEU's default"
        )


class Compared(NamedTuple):
    """A score of one system beside the baseline's."""

    value: float
    p_value: float | None  # None for the baseline itself, and of one sentence
    interval: Interval | None  # None with approximate randomisation, and of one sentence


class Comparison(NamedTuple):
    """One score of all systems, compared with the first of them."""

    signature: str
    trials: int
    systems: list[Compared]  # the baseline first


def compare_systems(
    systems: Mapping[str, Sequence[str]], metrics: Mapping[str, Metric], test: str
) -> dict[str, Comparison]:
    """Compare every system with the first, by every metric.

    The p-value is the probability of a difference at least as large if both systems were equally
    good. It says nothing about the size of the difference.

    Args:
        systems: outputs of each system by its name, all for the same sentences.
        metrics: result of `build_metrics`.
        test: name of a test: `bootstrap`, or `randomization`, which assumes less and takes longer.

    Source: Koehn 2004 (W04-3250); Riezler and Maxwell 2005 (W05-0908).
    """
    comparisons = {}
    single = len(next(iter(systems.values()))) == 1
    for label, metric in metrics.items():
        # One test per metric, each seeded alike: sacreBLEU keeps two kinds of BLEU under one name.
        paired = PairedTest(
            list(systems.items()), {label: metric}, references=None, test_type=TESTS[test]
        )
        signatures, scores = paired()
        (name,) = signatures
        signature = str(signatures[name])
        compared = []
        for result in scores[name]:
            assert not isinstance(result, str)  # only the column of names holds text
            interval = None
            if not single and result.mean is not None and result.ci is not None:
                interval = Interval(float(result.mean), float(result.ci), signature)
            p_value = None if single else result.p_value
            compared.append(Compared(result.score, p_value, interval))
        comparisons[label] = Comparison(signature, paired.n_samples, compared)
    return comparisons

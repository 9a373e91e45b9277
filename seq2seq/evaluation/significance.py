"""Is one system better than another, or lucky with this test set? sacreBLEU's paired tests."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from seq2seq.evaluation.scores import Interval

TESTS = {"bootstrap": "bs", "randomization": "ar"}


class Compared(NamedTuple):
    """A score of one system beside the baseline's."""

    value: float
    p_value: float | None  # None for the baseline itself
    interval: Interval | None  # None of approximate randomisation


class Comparison(NamedTuple):
    """One score of all systems, compared with the first of them."""

    signature: str
    trials: int
    systems: list[Compared]  # the baseline first


def compare(
    systems: Mapping[str, Sequence[str]], metrics: Mapping[str, Metric], test: str
) -> dict[str, Comparison]:
    """Compare every system with the first, by every metric.

    The p-value is the probability of a difference at least as large if both systems were equally
    good. It says nothing of how large the difference is.

    Args:
        systems: the outputs of each by its name, all for the same sentences.
        metrics: from `build_metrics`.
        test: `bootstrap`, or `randomization`, which assumes less and takes longer.

    Source: Koehn 2004 (W04-3250); Riezler and Maxwell 2005 (W05-0908).
    """
    found = {}
    for label, metric in metrics.items():
        # One test a metric: sacreBLEU keeps two kinds of BLEU under one name. It seeds each anew.
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
            if result.mean is not None and result.ci is not None:
                interval = Interval(float(result.mean), float(result.ci), signature)
            compared.append(Compared(result.score, result.p_value, interval))
        found[label] = Comparison(signature, paired.n_samples, compared)
    return found

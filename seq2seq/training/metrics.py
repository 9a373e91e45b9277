"""Validation metrics whose states are sums, so that they are the same on any number of devices."""

from collections.abc import Sequence

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor
from torchmetrics import Metric

from seq2seq.metrics.registry import ORDER, bleu
from seq2seq.metrics.scores import check_counts

COUNTS = 3 * CHRF.CHAR_ORDER  # for n = 1..6: n-grams of hypothesis, of reference, in both


def chrf_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> list[int]:
    """The counts that chrF is computed from; the counts of two corpora add up to those of both.

    Args:
        hypotheses: translations, detokenised.
        references: one for each, in the same order.

    Source: Popovic 2015 (W15-3049), with the settings of sacreBLEU.
    """
    if not hypotheses:
        return [0] * COUNTS
    # sacreBLEU has the counts of a corpus only under this name; the tests compare with its score.
    rows = CHRF()._extract_corpus_statistics(list(hypotheses), [list(references)])
    return [sum(column) for column in zip(*rows, strict=True)]


def chrf_from_statistics(statistics: Sequence[int]) -> float:
    """Corpus chrF, 0 to 100, from summed `chrf_statistics`."""
    return CHRF()._compute_score_from_stats(list(statistics)).score


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str | None = None
) -> list[int]:
    """The ten counts that BLEU is computed from; the counts of two corpora add up to those of both.

    Returns: matched n-grams for n = 1..4, n-grams of the hypotheses for n = 1..4, words of the
        hypotheses, words of the references. No sentences give ten zeros.
    Raises: DataError if the counts of sentences differ.
    """
    check_counts(hypotheses, references)
    if not hypotheses:
        return [0] * (2 * ORDER + 2)
    result = bleu(language).corpus_score(hypotheses, [references])
    return [
        int(count) for count in (*result.counts, *result.totals, result.sys_len, result.ref_len)
    ]


def bleu_from_statistics(statistics: Sequence[float]) -> float:
    """Corpus BLEU from summed `bleu_statistics`, equal to `score` on all the sentences at once.

    Raises: ValueError unless there are ten counts.
    """
    if len(statistics) != 2 * ORDER + 2:
        raise ValueError(f"{len(statistics)} counts; expected {2 * ORDER + 2} from bleu_statistics")
    counts = [int(count) for count in statistics]
    return BLEU.compute_bleu(
        correct=counts[:ORDER],
        total=counts[ORDER : 2 * ORDER],
        sys_len=counts[-2],
        ref_len=counts[-1],
        smooth_method="exp",
        max_ngram_order=ORDER,
    ).score


class SummedCounts(Metric):
    """A corpus score from counts that add up over sentences, and so over devices."""

    full_state_update = False
    higher_is_better = True
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        none = torch.tensor(self.count([], []), dtype=torch.float64)
        self.add_state("counts", none, dist_reduce_fx="sum")

    def count(self, hypotheses: list[str], references: list[str]) -> list[int]:
        raise NotImplementedError

    def score(self, counts: list[int]) -> float:
        raise NotImplementedError

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        counts = self.count(hypotheses, references)
        self.counts += torch.tensor(counts, dtype=torch.float64, device=self.counts.device)

    def compute(self) -> Tensor:
        value = self.score([int(x) for x in self.counts.tolist()])
        return torch.tensor(value, dtype=torch.float32)


class CorpusBLEU(SummedCounts):
    """sacreBLEU's corpus BLEU, 0 to 100."""

    def __init__(self, language: str | None = None) -> None:
        self.language = language
        super().__init__()

    def count(self, hypotheses: list[str], references: list[str]) -> list[int]:
        return bleu_statistics(hypotheses, references, language=self.language)

    def score(self, counts: list[int]) -> float:
        return bleu_from_statistics(counts)


class CorpusChrF(SummedCounts):
    """sacreBLEU's corpus chrF, 0 to 100."""

    def count(self, hypotheses: list[str], references: list[str]) -> list[int]:
        return chrf_statistics(hypotheses, references)

    def score(self, counts: list[int]) -> float:
        return chrf_from_statistics(counts)


class TokenMean(Metric):
    """A sum over tokens divided by their count, such as the loss."""

    full_state_update = False
    total: Tensor
    tokens: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("tokens", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, total: Tensor, tokens: int) -> None:
        self.total += total.double()
        self.tokens += tokens

    def compute(self) -> Tensor:
        return (self.total / self.tokens).float()

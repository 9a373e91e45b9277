"""Validation metrics whose states are sums, so that they are the same on any number of devices."""

import torch
from sacrebleu.metrics.base import Metric as Scorer
from torch import Tensor
from torchmetrics import Metric


class SummedScore(Metric):
    """A corpus score of sacreBLEU, 0 to 100, from counts that add up over sentences, and so over
    devices.

    Args:
        scorer: BLEU or chrF.
    """

    full_state_update = False
    higher_is_better = True
    counts: Tensor

    def __init__(self, scorer: Scorer):
        super().__init__()
        self.scorer = scorer
        none = torch.tensor(self._count([""], [""]), dtype=torch.float64).zero_()
        self.add_state("counts", none, dist_reduce_fx="sum")

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        """One or more translations, detokenised, and as many references."""
        counts = self._count(hypotheses, references)
        self.counts += torch.tensor(counts, dtype=torch.float64, device=self.counts.device)

    def compute(self) -> Tensor:
        counts = [int(x) for x in self.counts.tolist()]
        value = self.scorer._compute_score_from_stats(counts).score
        return torch.tensor(value, dtype=torch.float32)

    def _count(self, hypotheses: list[str], references: list[str]) -> list[int]:
        # sacreBLEU has the counts of a corpus only under this name; the tests compare with its
        # score.
        rows = self.scorer._extract_corpus_statistics(hypotheses, [references])
        return [sum(column) for column in zip(*rows, strict=True)]


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

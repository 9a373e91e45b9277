"""Validation metrics whose states are sums, so that they are the same on any number of devices."""

import torch
from torch import Tensor
from torchmetrics import Metric

from seq2seq.evaluation.bleu import bleu_from_statistics, bleu_statistics
from seq2seq.evaluation.chrf import chrf_from_statistics, chrf_statistics


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
        found = self.count(hypotheses, references)
        self.counts += torch.tensor(found, dtype=torch.float64, device=self.counts.device)

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
    """A sum over tokens divided by their number, such as the loss."""

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

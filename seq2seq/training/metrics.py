"""Validation metrics whose states are sums, so that they are the same on any number of devices."""

import torch
from torch import Tensor
from torchmetrics import Metric

from seq2seq.evaluation.bleu import bleu_from_statistics, bleu_statistics
from seq2seq.evaluation.chrf import chrf_from_statistics, chrf_statistics


class CorpusBLEU(Metric):
    """sacreBLEU's corpus BLEU, 0 to 100, from its sufficient statistics."""

    full_state_update = False
    higher_is_better = True
    statistics: Tensor

    def __init__(self, language: str | None = None) -> None:
        super().__init__()
        self.language = language
        empty = torch.tensor(bleu_statistics([], [], language=language), dtype=torch.float64)
        self.add_state("statistics", empty, dist_reduce_fx="sum")

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        counts = bleu_statistics(hypotheses, references, language=self.language)
        self.statistics += torch.tensor(counts, dtype=torch.float64, device=self.statistics.device)

    def compute(self) -> Tensor:
        value = bleu_from_statistics([int(x) for x in self.statistics.tolist()])
        return torch.tensor(value, dtype=torch.float32)


class CorpusChrF(Metric):
    """sacreBLEU's corpus chrF, 0 to 100, from its sufficient statistics."""

    full_state_update = False
    higher_is_better = True
    statistics: Tensor

    def __init__(self) -> None:
        super().__init__()
        empty = torch.tensor(chrf_statistics([], []), dtype=torch.float64)
        self.add_state("statistics", empty, dist_reduce_fx="sum")

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        counts = chrf_statistics(hypotheses, references)
        self.statistics += torch.tensor(counts, dtype=torch.float64, device=self.statistics.device)

    def compute(self) -> Tensor:
        value = chrf_from_statistics([int(x) for x in self.statistics.tolist()])
        return torch.tensor(value, dtype=torch.float32)


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

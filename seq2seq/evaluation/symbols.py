"""Scores of tasks whose output is right or wrong, symbol by symbol: exact match and error rate.

A symbol is what stands between white space: a phone, a letter, a word.
"""

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.base import Metric, Score, Signature
from torchmetrics.functional.text import word_error_rate


class SymbolSignature(Signature):
    """Says what is compared."""

    def __init__(self, args: dict[str, Any]):
        super().__init__(args)
        self.info["unit"] = args["unit"]
        self.info["case"] = "mixed"


class SymbolMetric(Metric):
    """What the two have in common: each sentence is compared with the reference nearest to it."""

    _SIGNATURE_TYPE = SymbolSignature
    label: str
    unit: str

    def __init__(self, references: Sequence[Sequence[str]]):
        super().__init__()
        self.unit = type(self).unit  # where the signature looks for it
        self._ref_cache = self._cache_references(references)

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(sent.split())

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": refs}

    def _aggregate_and_compute(self, stats: list[list[int]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[Any]) -> Score:
        part, whole = stats
        if not whole:  # no symbol in any reference: all that was written is wrong
            return Score(self.label, 100.0 if part else 0.0)
        return Score(self.label, 100 * float(part) / float(whole))


class ExactMatch(SymbolMetric):
    """How many of 100 outputs equal a reference, white space aside."""

    label = "exact"
    unit = "line"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        return [int(hypothesis in ref_kwargs["references"]), 1]


class SymbolErrorRate(SymbolMetric):
    """Insertions, deletions and substitutions for 100 symbols of the references.

    Of several references the one that takes the fewest edits counts, and of those the first. More
    than 100 is possible.
    """

    label = "SER"
    unit = "symbol"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        pairs = [(edits(hypothesis, r), len(r.split())) for r in ref_kwargs["references"]]
        nearest = min(pairs, key=lambda pair: pair[0])
        return list(nearest)


def edits(hypothesis: str, reference: str) -> int:
    """The fewest insertions, deletions and substitutions of symbols that make one of the other."""
    length = len(reference.split())
    if not length:
        return len(hypothesis.split())
    return round(word_error_rate(hypothesis, reference).item() * length)

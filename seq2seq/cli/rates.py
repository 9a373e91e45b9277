"""How links agree with links made by hand, as text and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq.evaluation.alignment import LinkCounts

HEADINGS = ("AER", "precision", "recall", "F1")


def values(counts: "LinkCounts") -> tuple[float, ...]:
    return counts.aer, counts.precision, counts.recall, counts.f1


def line(counts: "LinkCounts") -> str:
    """`AER 0.137, precision 0.830, recall 0.898, F1 0.862`."""
    pairs = zip(HEADINGS, values(counts), strict=True)
    return ", ".join(f"{name} {value:.3f}" for name, value in pairs)


def table(rows: Sequence[tuple[str, "LinkCounts"]]) -> list[str]:
    """A line for each, under headings."""
    found = ["  ".join(f"{name:>9}" for name in HEADINGS)]
    for name, counts in rows:
        found.append("  ".join(f"{value:9.3f}" for value in values(counts)) + f"  {name}")
    return found


def entry(counts: "LinkCounts") -> dict[str, float]:
    """For JSON: the rates, and the counts that they are made of."""
    rates = zip((name.lower() for name in HEADINGS), values(counts), strict=True)
    return {**dict(rates), **counts._asdict()}

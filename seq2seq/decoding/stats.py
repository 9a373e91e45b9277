"""Counts and times of an engine's work."""

import time
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Self

from seq2seq.base.errors import format_count
from seq2seq.decoding.search import Hypothesis


@dataclass
class Stats:
    """Counters of an engine's work; `str(stats)` is a readable summary.

    Attributes:
        sentences: answered sentences.
        tokens: tokens of their best hypotheses, eos included.
        truncated: best hypotheses that the length limit cut off.
        steps: decoder steps.
        rows: hypotheses per step, summed over the steps.
        live: part of `rows` whose sentences were not answered yet.
        admitted: times that a sentence started.
        preempted: times that a sentence gave up its pages, to start again later.
        held, written: capacity of the pages in use, and tokens stored in them, both in tokens and
            summed over the steps.
        high_water: largest number of pages in use.
        nanoseconds: time spent in each stage.
    """

    sentences: int = 0
    tokens: int = 0
    truncated: int = 0
    steps: int = 0
    rows: int = 0
    live: int = 0
    admitted: int = 0
    preempted: int = 0
    held: int = 0
    written: int = 0
    high_water: int = 0
    nanoseconds: Counter[str] = field(default_factory=Counter)

    def lap(self, stage: str, start: int) -> int:
        """Add the time since `start` to a stage. Returns: the current time."""
        now = time.perf_counter_ns()
        self.nanoseconds[stage] += now - start
        return now

    def answer(self, hypotheses: list[Hypothesis]) -> None:
        """Count a sentence with these hypotheses as answered."""
        self.sentences += 1
        if hypotheses:
            self.tokens += len(hypotheses[0].token_logp)
            self.truncated += hypotheses[0].truncated

    def __add__(self, other: Self) -> Self:
        """The summed work of two engines."""
        names = [entry.name for entry in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))

    def __str__(self) -> str:
        lines = [
            f"{format_count(self.sentences, 'sentence')}, {format_count(self.tokens, 'token')} in "
            f"{format_count(self.steps, 'step')} of "
            f"{fraction(self.rows, self.steps):.1f} hypotheses, "
            f"{fraction(self.live, self.rows):.0%} of them useful",
            "seconds: "
            + ", ".join(f"{stage} {spent / 1e9:.2f}" for stage, spent in self.nanoseconds.items()),
        ]
        if self.truncated:
            lines.append(f"cut off at the length limit: {format_count(self.truncated, 'sentence')}")
        if self.held:
            lines.append(
                f"pages: at most {self.high_water:,} in use, with room for "
                f"{fraction(self.held, self.written):.2f} times the tokens in them; "
                f"{format_count(self.preempted, 'sentence')} restarted for lack of pages"
            )
        return "\n".join(lines)


def fraction(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

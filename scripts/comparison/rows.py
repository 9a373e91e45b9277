"""The table of the comparison, with one row per mechanism, as Markdown and as CSV."""

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from comparison.memory import Remembered
from comparison.speed import Speeds


class Mean(NamedTuple):
    """The mean of a score over seeds."""

    value: float
    deviation: float | None  # sample standard deviation; None for one seed

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread)

    def text(self, digits: int, interval: float | None = None) -> str:
        """The mean as text, such as `31.2 ± 0.4`, with the deviation, or the interval if there is
        only one seed.
        """
        after = interval if self.deviation is None else self.deviation
        return f"{self.value:.{digits}f}" + ("" if after is None else f" ± {after:.{digits}f}")


class Row(NamedTuple):
    """A mechanism in the table. Values that were not measured are None."""

    name: str
    roles: str
    seeds: int
    bleu: Mean
    loss: Mean
    test: Mean | None
    interval: float | None  # half of the 95% interval of `test` over sentences, for one seed
    parameters: int
    past: Remembered
    source: Remembered
    speeds: Speeds | None


def markdown(rows: Sequence[Row]) -> str:
    """The table as Markdown. Ratios are relative to the first row."""
    head = header(rows)
    lines = [head, ["---", "---"] + ["---:"] * (len(head) - 2), *(cells(r, rows) for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def header(rows: Sequence[Row]) -> list[str]:
    """The headers of the columns of `cells`."""
    names = ["attn", "roles", "BLEU, valid", "loss, valid"]
    names += ["BLEU, test"] if rows[0].test else []
    names += ["parameters"]
    if rows[0].speeds:
        names += ["training, tokens/s", "ratio", "decoding, sentences/s", "ratio"]
    return [*names, "bytes a target token", "bytes a source token"]


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    name = row.name if row.seeds == 1 else f"{row.name} ({row.seeds} seeds)"
    columns = [name, row.roles, row.bleu.text(1), row.loss.text(3)]
    if row.test:
        columns += [row.test.text(1, row.interval)]
    columns += [f"{row.parameters:,}"]
    first = rows[0].speeds
    if row.speeds and first:
        for speed, base in zip(row.speeds, first, strict=True):
            columns += [figure(speed), f"{speed / base:.2f}"]
    return [*columns, size(row.past), size(row.source)]


def spread_note(rows: Sequence[Row]) -> str | None:
    """An explanation of the numbers after ± in the table; None if there are none."""
    said = []
    if any(row.seeds > 1 for row in rows):
        said.append("the sample standard deviation over seeds")
    if any(row.interval is not None for row in rows):
        said.append("of the test BLEU of a single seed, half of its 95% interval over sentences")
    return f"After ±: {'; '.join(said)}." if said else None


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def size(memory: Remembered) -> str:
    """A size as text: `4,096`, or `0 + 66,560` if a part does not depend on the length."""
    each = f"{memory.each:,.0f}"
    return f"{each} + {memory.fixed:,.0f}" if round(memory.fixed) else each


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write all figures at full precision, one per column; those not measured are empty."""
    table = [record(row, rows[0]) for row in rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def record(row: Row, first: Row) -> dict[str, object]:
    speeds, base = row.speeds, first.speeds
    return {
        "attn": row.name,
        "roles": row.roles,
        "seeds": row.seeds,
        "valid_bleu": row.bleu.value,
        "valid_bleu_deviation": row.bleu.deviation,
        "valid_loss": row.loss.value,
        "valid_loss_deviation": row.loss.deviation,
        "test_bleu": row.test and row.test.value,
        "test_bleu_deviation": row.test and row.test.deviation,
        "test_bleu_interval": row.interval,
        "parameters": row.parameters,
        "training_tokens_per_second": speeds and speeds.training,
        "training_ratio": speeds and base and speeds.training / base.training,
        "decoding_sentences_per_second": speeds and speeds.decoding,
        "decoding_ratio": speeds and base and speeds.decoding / base.decoding,
        "bytes_per_target_token": row.past.each,
        "bytes_of_target_fixed": row.past.fixed,
        "bytes_per_source_token": row.source.each,
        "bytes_of_source_fixed": row.source.fixed,
    }

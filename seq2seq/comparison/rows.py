"""The tables of the comparison, with one row per mechanism, and its answer in words."""

import csv
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.base.errors import format_count
from seq2seq.comparison.memory import Remembered, measure_memory
from seq2seq.comparison.runs import Group
from seq2seq.comparison.significance import LEVEL, MeanDifference
from seq2seq.comparison.speed import Speeds

LABELS = {"bleu": "BLEU", "chrf": "chrF", "exact": "exact", "ser": "SER"}
UNITS = {"exact": "points of exact match"}
SPREAD = (
    "After ±: the sample standard deviation over seeds; for one seed, half of the 95 % interval "
    "over sentences."
)
FALLING = ("SER", "TER", "AER")  # less is better
WORST = 1.0  # distance from the worst score, out of 100, within which nothing has been learnt


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


class MetricResult(NamedTuple):
    """A score of a mechanism on the test set, and its difference to that of the first row."""

    mean: Mean
    interval: float | None  # half of the 95% interval over sentences, for one seed
    difference: MeanDifference | None  # None for the first row; p is corrected for their number
    lengths: Mapping[str, float]  # the score in each range of source lengths


class Row(NamedTuple):
    """A mechanism in the tables. Values that were not measured are None."""

    name: str
    roles: str
    seeds: int
    metric: str  # label of the validation score
    valid: Mean
    loss: Mean
    within: Mean | None  # best validation score within `limit`
    limit: float  # seconds of the longest run of the first row
    update: Mean  # update of the best validation
    seconds: Mean  # seconds of training
    rate: float  # learning rate
    tests: Mapping[str, MetricResult]  # by label
    parameters: int
    past: Remembered
    source: Remembered
    speeds: Speeds | None


def build_row(
    group: Group, tests: Mapping[str, MetricResult], speeds: Speeds | None, seconds: float
) -> Row:
    """The row of a mechanism.

    Args:
        seconds: longest training time in the first row; 0 if it is not known.
    """
    run = group.runs[0]
    model = run.saved.build()
    past, source = measure_memory(model, run.saved.config["data"]["max_length"])
    within = [score for each in group.runs if (score := each.score_within(seconds)) is not None]
    return Row(
        name=group.name,
        roles=run.roles,
        seeds=len(group.runs),
        metric=LABELS.get(run.metric, run.metric),
        valid=Mean.of([each.score for each in group.runs]),
        loss=Mean.of([float(each.best["valid/loss"]) for each in group.runs]),
        within=Mean.of(within) if len(within) == len(group.runs) else None,
        limit=seconds,
        update=Mean.of([int(each.best["step"]) + 1 for each in group.runs]),
        seconds=Mean.of([each.seconds for each in group.runs]),
        rate=run.saved.config["update"]["optimizer"]["lr"],
        tests=tests,
        parameters=sum(each.numel() for each in model.parameters()),
        past=past,
        source=source,
        speeds=speeds,
    )


class Column(NamedTuple):
    title: str
    text: Callable[[Row], str]


def verdicts(rows: Sequence[Row]) -> list[str]:
    """A sentence for each row after the first: if it differs from the first, and by how much."""
    label = next(iter(rows[0].tests))
    return [describe_difference(rows[0], row, label) for row in rows[1:]]


def describe_difference(first: Row, row: Row, label: str) -> str:
    """`mha is better than additive by 1.5 BLEU (95 % interval 0.3 to 2.7, p = 0.02, 3 seeds)`."""
    found, digits = row.tests[label].difference, digits_of(label)
    if found is None:
        return f"{first.name} and {row.name} cannot be compared on a single sentence."
    scores = [each.tests[label].mean.value for each in (first, row)]
    if all(is_worst(score, label) for score in scores):
        shown = " and ".join(to_text(score, digits) for score in scores)
        return (
            f"{first.name} and {row.name} cannot be compared: neither has learnt the task ({label} "
            f"{shown}). Train longer, with a larger trainer.max_steps."
        )
    p_value, names = found.p_value, (row.name, first.name)
    ends = found.value, found.low, found.high
    if p_value < LEVEL and found.value < 0:  # what is shown is positive
        ends = -found.value, -found.high, -found.low
    value, low, high = (to_text(end, digits) for end in ends)
    p_text = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
    seeds = format_count(min(first.seeds, row.seeds), "seed")
    size = f"{value} {UNITS.get(label, label)} (95 % interval {low} to {high}, {p_text}, {seeds})"
    if p_value >= LEVEL:
        return f"No difference between {names[0]} and {names[1]} is shown: {size}."
    if (found.value < 0) != (label in FALLING):
        names = names[::-1]
    return f"{names[0]} is better than {names[1]} by {size}."


def is_worst(score: float, label: str) -> bool:
    """True if a score is about the worst that a metric can give, such as BLEU 0.3 or SER 99.5."""
    if label not in FALLING:
        return score < WORST
    return (score * 100 if label == "AER" else score) > 100 - WORST


def to_text(value: float, digits: int) -> str:
    """A number as text; one that rounds to zero has no sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def digits_of(label: str) -> int:
    """The decimals of a score: the alignment error rate is from 0 to 1, others from 0 to 100."""
    return 3 if label == "AER" else 1


def score_columns(rows: Sequence[Row]) -> list[Column]:
    """The columns of the table of test scores."""
    tests = [column for label in rows[0].tests for column in test_columns(label)]
    return [Column("attn", title_of), *tests, Column("roles", lambda row: row.roles)]


def validation_columns(rows: Sequence[Row]) -> list[Column]:
    """The columns of the table of validation scores."""
    title = f"{rows[0].metric}, valid"
    within = Column(
        f"{title}, within {rows[0].limit:,.0f} s",
        lambda row: row.within.text(1) if row.within else "-",
    )
    return [
        Column("attn", title_of),
        Column(title, lambda row: row.valid.text(1)),
        *([within] if rows[0].within else []),
        Column("loss, valid", lambda row: row.loss.text(3)),
        Column("best update", lambda row: f"{row.update.value:,.0f}"),
        Column("learning rate", lambda row: f"{row.rate:g}"),
    ]


def test_columns(label: str) -> list[Column]:
    digits = digits_of(label)

    def score(row: Row) -> str:
        found = row.tests.get(label)
        return found.mean.text(digits, found.interval) if found else "-"

    def difference(row: Row) -> str:
        found = row.tests.get(label)
        if found is None or found.difference is None:
            return "-"
        value, low, high, p_value = found.difference
        ends = f"{to_text(low, digits)} to {to_text(high, digits)}"
        return f"{value:+.{digits}f} ({ends}), p = {p_value:.2g}"

    return [Column(f"{label}, test", score), Column("difference (95 %)", difference)]


def cost_columns(rows: Sequence[Row]) -> list[Column]:
    """The columns of the table of costs. Ratios are relative to the first row."""
    base, times = rows[0].speeds, {"training": "tokens/s", "decoding": "sentences/s"}
    return [
        Column("attn", lambda row: row.name),
        Column("parameters", lambda row: f"{row.parameters:,}"),
        Column("training, s", lambda row: f"{row.seconds.value:,.0f}"),
        *(time_column(part, unit, base) for part, unit in times.items() if base),
        Column("bytes a target token", lambda row: size(row.past)),
        Column("bytes a source token", lambda row: size(row.source)),
    ]


def time_column(part: str, unit: str, base: Speeds) -> Column:
    def text(row: Row) -> str:
        speed = getattr(row.speeds, part)
        return f"{figure(speed)} ({speed / getattr(base, part):.2f})"

    return Column(f"{part}, {unit} (ratio)", text)


def describe_rows(rows: Sequence[Row]) -> list[str]:
    """The answer in words, the three tables, and the meaning of their numbers, as Markdown."""
    answer = "\n".join(f"- {each}" for each in verdicts(rows))
    kinds = (score_columns, validation_columns, cost_columns)
    tables = [markdown(rows, columns(rows)) for columns in kinds]
    return [answer, *tables, SPREAD]


def title_of(row: Row) -> str:
    return row.name if row.seeds == 1 else f"{row.name} ({row.seeds} seeds)"


def markdown(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """A table as Markdown."""
    lines = [[column.title for column in columns], ["---"] * len(columns)]
    lines += [[column.text(row) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def size(memory: Remembered) -> str:
    """A size as text: `4,096`, or `0 + 66,560` if a part does not depend on the length."""
    each = f"{memory.each:,.0f}"
    return f"{each} + {memory.fixed:,.0f}" if round(memory.fixed) else each


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write all figures at full precision, one per column; those not measured are empty."""
    table = [join_names(row._asdict()) for row in rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(chain(*table))))
        writer.writeheader()
        writer.writerows(table)


def join_names(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """The figures in nested tuples, by their joined names."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        inside = value._asdict() if hasattr(value, "_asdict") else value
        if isinstance(inside, Mapping):
            flat |= join_names(inside, f"{prefix}{name}_")
        elif inside is not None:
            flat[prefix + name] = inside
    return flat
